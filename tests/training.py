"""What tests of training share: small stages, a domain of words, a model that knows nothing."""

import random
from pathlib import Path
from typing import Any

from coevolve.core.rollout import Message, Outcome
from coevolve.core.splits import Split, split_of
from coevolve.core.task import Task
from coevolve.domains.registry import get_domain
from coevolve.engines.base import Stage
from coevolve.harness.recipe import Recipe

LAKE = {"agents2.share": 1.0, "size3.data_ratio": 0.5, "size4.data_ratio": 0.5}


def lake_tasks(count: int, split: Split = Split.TRAIN) -> list[Task]:
    """Small boards, on which the pocket policy is neither always right nor always wrong."""
    domain = get_domain("lake")
    return list(domain.generate(domain.space.parse(LAKE), count, 3, split))


def stage(folder: Path, **changes: Any) -> Stage:
    """A short stage of the pocket policy."""
    recipe = {"steps": 4, "tasks": 2, "group": 4, "learning_rate": 1e-4, "max_tokens": 40}
    recipe.update(changes.pop("recipe", {}))
    return Stage(
        **{"kind": "grpo", "model": "pocket", "folder": folder, "save_every": 2, **changes},
        recipe=Recipe(**recipe),
    )


def weights(folder: str | Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(Path(folder) / "model.safetensors")


class Words:
    """A domain of one-turn tasks: say the word that the prompt names, as often as you can."""

    name = "words"
    failures = {"other": "some other word"}
    components = {"share": "of words that are right", "turns": "taken"}
    scripts: dict[str, Any] = {}

    def tasks(self, count: int) -> list[Task]:
        words = ("holes", "starts", "goals", "plan", "3x3", "4x4", "0,0", "1,1")
        return [
            Task(
                id=f"words-{index}",
                domain=self.name,
                split=Split.TRAIN,
                seed=index,
                bucket={"word": words[index % len(words)]},
                data={"word": words[index % len(words)]},
            )
            for index in range(count)
        ]

    def prompt(self, task: Task, style: str = "") -> tuple[Message, ...]:
        return (Message(role="user", content=f"plan {task.data['word']} plan"),)

    def verify(self, task: Task, text: str, tokens: int | None = None) -> Outcome:
        said = text.split()
        share = sum(map(ord, text)) % 7 / 7 if said else 0.0
        return Outcome(
            valid=share > 0.5,
            optimal=False,
            reward=share,
            components={"share": share},
            failure=None if share > 0.5 else "other",
        )

    def oracle(self, task: Task, style: str = "") -> str:
        return str(task.data["word"])

    def fingerprint(self, task: Task) -> int:
        return next(n for n in range(100) if split_of(n) is Split.TRAIN)


class Flat(Words):
    """A domain in which every answer earns the same."""

    def verify(self, task: Task, text: str, tokens: int | None = None) -> Outcome:
        return Outcome(valid=False, optimal=False, reward=0.0, components={}, failure="other")


class Guess:
    """An episode of plain turns: the environment asks again until three turns are over."""

    def __init__(self, word: str) -> None:
        self.word, self.said, self.rng = word, [], random.Random(word)  # type: ignore[var-annotated]

    def reply(self, text: str) -> str | None:
        self.said.append(text)
        return None if text.strip() == self.word else "plan again"

    def outcome(self, text: str, tokens: int | None = None) -> Outcome:
        reward = len(" ".join(self.said)) % 5 / 4
        return Outcome(
            valid=reward > 0.5,
            optimal=False,
            reward=reward,
            components={"turns": len(self.said)},
            failure=None if reward > 0.5 else "other",
        )

    def look(self, place: str) -> str:
        """Look at a place.

        Args:
            place: Where to look.
        """
        self.said.append(place)
        return f"nothing at {place}"


class Guessing(Words):
    """Words in up to three turns."""

    name = "guessing"
    turns = 3
    tools: tuple[str, ...] = ()

    def begin(self, task: Task) -> Guess:
        return Guess(task.data["word"])


class Looking(Guessing):
    """The same with a tool."""

    name = "looking"
    tools = ("look",)
