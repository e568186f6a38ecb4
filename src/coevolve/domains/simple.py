"""A domain in few lines: what the protocol asks for and most domains would write alike.

A subclass writes `make`, `question` and `answer`; everything else may be overridden. Invariant:
`generate` gives the same tasks for any number of workers, each in the split of its content.
"""

import json
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError, KnobError, UserError
from coevolve.core.names import lookup
from coevolve.core.rollout import Message, Outcome
from coevolve.core.seeds import derive, digest
from coevolve.core.splits import Split, check_split, split_of
from coevolve.core.task import Label, Task, whole_task
from coevolve.core.thought import spoken
from coevolve.domains.base import Script, Statistic, mean
from coevolve.domains.chunks import in_chunks
from coevolve.domains.knobs import Knobs, KnobSpace
from coevolve.domains.turns import Player
from coevolve.harness.reward import SHORT_TOKENS

Data = dict[str, Any]
"""What a task holds: plain JSON values."""
OPEN, CLOSE = "<answer>", "</answer>"
ATTEMPTS = 2_000
"""Tasks drawn until one belongs to the split; one in six does."""
LONG_TOKENS = 4_096


def tagged(text: str) -> str | None:
    """What stands in the one answer block of a text, None where there is not exactly one."""
    text = spoken(text) or ""
    begin, end = text.find(OPEN), text.find(CLOSE)
    single = text.count(OPEN) == text.count(CLOSE) == 1 and begin < end
    return text[begin + len(OPEN) : end].strip() if single else None


def task_of(
    domain: str, data: Data, mark: int, bucket: dict[str, Label], seed: int, name: str = ""
) -> Task:
    """A task around its data, named after it unless it has a name; `mark` decides its split."""
    return Task(
        id=name or f"{domain}-{digest(json.dumps(data, sort_keys=True), size=8).hex()}",
        domain=domain,
        split=split_of(mark),
        seed=seed,
        bucket=bucket,
        data=data,
    )


def distinct(tasks: Iterable[Task], mark: Callable[[Task], object], count: int) -> Iterator[Task]:
    """The first so many tasks of which no two have the same mark."""
    seen: set[object] = set()
    for task in tasks:
        if mark(task) not in seen:
            seen.add(mark(task))
            yield task
        if len(seen) == count:
            return


def length(tokens: int) -> float:
    """The charge for a long answer: 0 up to 1,500 tokens, then linearly down to -1 at 4,096."""
    over = (tokens - SHORT_TOKENS) / (LONG_TOKENS - SHORT_TOKENS)
    return -min(max(over, 0.0), 1.0)


class SimpleDomain:
    """Implements the `Domain` protocol for questions that have one right answer.

    The statistic of a share with a label is the share of tasks with that label; of any other knob
    the mean of what task data holds under the knob's name.
    """

    name: str
    summary: str
    space: KnobSpace
    failures: Mapping[str, str] = {
        "format": f"not exactly one answer between {OPEN} and {CLOSE}",
        "wrong": "another answer than the right one",
    }
    components: Mapping[str, str] = {"accuracy": "1 for the right answer, else 0"}
    buckets: tuple[str, ...] = ()
    """Labels of every task; each is a key of its data unless `labels` says otherwise."""
    styles: tuple[str, ...] = ("tagged",)
    full_reward: float = 1.0
    suites: Mapping[str, Callable[[], Iterator[Task]]] = {}
    chunk: int = 4_096
    """Tasks that a worker process makes at a time; fewer are made without one."""

    def make(self, knobs: Knobs, rng: random.Random) -> Data:
        """One task, drawn from the knobs."""
        raise self.lacks("make(self, knobs, rng)")

    def question(self, data: Data) -> str:
        """What a policy is asked."""
        raise self.lacks("question(self, data)")

    def answer(self, data: Data) -> str:
        """The right answer."""
        raise self.lacks("answer(self, data)")

    def lacks(self, method: str) -> NotImplementedError:
        """What a class that left a method out is told."""
        own = type(self)
        file = getattr(sys.modules.get(own.__module__), "__file__", own.__module__)
        return NotImplementedError(f"{own.__name__} in {file} needs a method {method}")

    def right(self, data: Data, answer: str) -> bool:
        """Whether an answer is right."""
        return answer == self.answer(data)

    def content(self, data: Data) -> str:
        """What makes two tasks the same task: it decides the split."""
        return " ".join(self.question(data).split())

    def labels(self, data: Data) -> dict[str, Label]:
        """The bucket of a task."""
        return {name: data[name] for name in self.buckets}

    def complete(self, data: Data) -> Data:
        """Data of a task that was loaded, checked; what it lacks is added."""
        return data

    @property
    def panels(self) -> tuple[str, ...]:
        return self.buckets

    @property
    def scripts(self) -> Mapping[str, Script]:
        players: Mapping[str, Player] = getattr(self, "players", {})
        first = {name: partial(first_turn, player) for name, player in players.items()}
        return {"oracle": self.scripted_oracle, "silent": silent, **first}

    def scripted_oracle(self, task: Task, _rng: random.Random, style: str) -> str:
        return self.oracle(task, style)

    def generate(
        self, knobs: Knobs, count: int, seed: int, split: Split, workers: int = 1
    ) -> Iterator[Task]:
        make = partial(self.make_chunk, dict(knobs), seed, split)
        return in_chunks(make, count, workers, self.chunk)

    def make_chunk(
        self, values: dict[str, float], seed: int, split: Split, begin: int, end: int
    ) -> list[Task]:
        """The tasks number begin to end - 1."""
        knobs = Knobs(self.space, values)
        return [
            self.draw_task(knobs, derive(seed, split.value, n), split) for n in range(begin, end)
        ]

    def draw_task(self, knobs: Knobs, seed: int, split: Split) -> Task:
        """The first task drawn from `seed` that belongs to the split."""
        for attempt in range(ATTEMPTS):
            drawn = derive(seed, self.name, attempt)
            task = self.as_task(self.make(knobs, random.Random(drawn)), drawn)
            if task.split is split:
                return task
        raise KnobError(
            f"no task of the split '{split}' in {ATTEMPTS} tries: these knobs allow too few "
            f"different tasks of {self.name}; widen them"
        )

    def as_task(self, data: Data, seed: int = 0) -> Task:
        """A task from its data: name and split follow from its content."""
        return task_of(self.name, data, self.mark(data), self.labels(data), seed)

    def mark(self, data: Data) -> int:
        return int.from_bytes(digest(self.name, self.content(data), size=8), "big")

    def fingerprint(self, task: Task) -> int:
        return self.mark(task.data)

    def style(self, style: str) -> str:
        return lookup("prompt style", style or self.styles[0], {name: name for name in self.styles})

    def prompt(self, task: Task, style: str = "") -> tuple[Message, ...]:
        self.style(style)
        rules = f"Give the final answer alone between {OPEN} and {CLOSE}. You may think first."
        return (
            Message(role="system", content=rules),
            Message(role="user", content=self.question(task.data)),
        )

    def oracle(self, task: Task, style: str = "") -> str:
        self.style(style)
        return f"{OPEN}{self.answer(task.data)}{CLOSE}"

    def verify(self, task: Task, text: str, tokens: int | None = None) -> Outcome:
        found = tagged(text)
        if found is None:
            return verdict("format", self.failures["format"])
        valid = self.right(task.data, found)
        return verdict(None if valid else "wrong", "" if valid else self.failures["wrong"])

    def statistics(self, tasks: Sequence[Task]) -> dict[str, Statistic]:
        found = {}
        for knob in self.space.knobs.values():
            telling = [task for task in tasks if knob.label or knob.name in task.data]
            if telling:
                found[knob.name] = mean([measured(t, knob.name, knob.label) for t in telling])
        return found

    def solve(self, data: Mapping[str, Any]) -> dict[str, Any]:
        return {"answer": self.answer(self.load(data).data)}

    def draw(self, task: Task, text: str | None = None) -> str:
        shown = self.question(task.data)
        return shown if text is None else f"{shown}\n→ {text}"

    def picture(self, task: Task, text: str | None, path: Path) -> None:
        raise UserError(f"cannot draw {path}: tasks of {self.name} are text")

    def load(self, data: Mapping[str, Any]) -> Task:
        """A task from a line of JSON: a whole task, or only its data."""
        given = whole_task(data, self.name) if "data" in data else None
        try:
            bare = given.data if given else {key: data[key] for key in data if key != "id"}
            task = self.as_task(self.complete(bare))
            self.question(task.data), self.answer(task.data)
        except CoevolveError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise UserError(f"not a task of {self.name} ({reason:.100})") from None
        if given:
            check_split(self.fingerprint(task), given.split, given.id)
            return task.model_copy(update={"id": given.id, "seed": given.seed})
        return task.model_copy(update={"id": str(data["id"])}) if data.get("id") else task


def first_turn(player: Player, task: Task, rng: random.Random, _style: str) -> str:
    """What a player says who has heard nothing yet."""
    return player(task, rng, ())


def silent(_task: Task, _rng: random.Random, _style: str) -> str:
    return "I cannot solve this task."


def verdict(
    failure: str | None,
    reason: str = "",
    components: dict[str, float] | None = None,
    reward: float | None = None,
    details: dict[str, Any] | None = None,
) -> Outcome:
    """The outcome of a right answer, or of a failure and its reason; the components sum up."""
    components = {"accuracy": float(failure is None)} if components is None else components
    return Outcome(
        valid=failure is None,
        optimal=failure is None,
        reward=sum(components.values()) if reward is None else reward,
        components=components,
        failure=failure,
        details={**(details or {}), **({"reason": reason} if failure else {})},
    )


def measured(task: Task, name: str, label: tuple[str, Label] | None) -> float:
    """What one task adds to the statistic of a knob."""
    if label:
        return float(task.bucket.get(label[0]) == label[1])
    return float(task.data[name])
