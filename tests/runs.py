"""A small whole run to look at: scripts for policies, and an engine that pretends to train them."""

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from coevolve.core.task import Task
from coevolve.domains.registry import get_domain
from coevolve.engineers.base import Edit, Proposal, View
from coevolve.engines.base import Observe, Result, Stage
from coevolve.evolution.measuring import Measuring
from coevolve.evolution.rounds import Rounds
from coevolve.harness.experiment import make_experiment
from coevolve.ledger.ledger import Ledger
from coevolve.policies.base import Completion, Policy, Prompt, Sampling
from coevolve.policies.scripted import ScriptedPolicy

LAKE = get_domain("lake")
SMALL = {"size3.data_ratio": 0.5, "size4.data_ratio": 0.5, "agents3.share": 1.0}
STEPS = 4
HOSTILE = (
    "</script></style></title><script>alert(1)</script><img src=x onerror=alert(2)>"
    '"\'><a href="javascript:alert(3)">{{ 7 * 7 }}\u202e'
)
"""What a model may write to get out of wherever it is shown."""


def metrics(number: int, step: int) -> dict[str, float]:
    """What the pretended engine says of a step."""
    return {
        "step": step, "reward": 0.1 * number + 0.01 * step, "valid": 0.5, "dead": 0.25,
        "entropy": 0.3, "tokens": 1000.0 * step, "seconds": 0.5,
    }  # fmt: skip


class Pretended:
    """An engine whose rounds end with these scripts, one after the other, each as a checkpoint."""

    def __init__(self, scripts: Sequence[str]) -> None:
        self.scripts = scripts

    def train(self, stage: Stage, tasks: Sequence[Task], observe: Observe | None = None) -> Result:
        number = int(stage.folder.parent.name)
        policy = stage.folder / "policy"
        policy.mkdir(parents=True)
        (policy / "script").write_text(self.scripts[number])
        lines = [json.dumps(metrics(number, step)) for step in range(1, STEPS + 1)]
        (stage.folder / "steps.jsonl").write_text("\n".join(lines) + "\n")
        return Result(policy=str(policy), steps=STEPS, rollouts=32, tokens=4000, seconds=0.001)

    def check(self, model: str, scripts: Collection[str]) -> None:
        pass


class Saying:
    """An engineer that wants more holes, in given words."""

    name = "saying"

    def __init__(self, words: str) -> None:
        self.words = words

    def propose(self, view: View, seed: int) -> list[Proposal]:
        edits = tuple(Edit(knob=f"size{size}.hole_ratio", action="raise") for size in (3, 4))
        return [
            Proposal(edits=(*edits, Edit(knob="no.such", action="set", value=1)),
                     explanation=self.words),
            Proposal(failure=f"had no second idea {self.words}"),
        ]  # fmt: skip


class Hostile:
    """A policy that answers with markup."""

    name = "hostile"

    def answer(self, prompts: list[Prompt], sampling: Sampling) -> list[Completion]:
        return [Completion(HOSTILE, seconds=0.001) for _ in prompts]


def load(name: str) -> tuple[Policy, str]:
    """A script by its name, or by the checkpoint that names it."""
    if name == "hostile":
        return Hostile(), ""
    file = Path(name) / "script"
    return ScriptedPolicy(LAKE, file.read_text() if file.is_file() else name), ""


def make_run(
    folder: Path,
    scripts: Sequence[str] = ("prioritised", "random", "prioritised"),
    words: str = "more holes",
    **changes: Any,
) -> Rounds:
    """A run that is ready to go."""
    experiment = make_experiment(
        {
            "name": "test", "policy": "greedy", "rounds": len(scripts), "start": "default",
            "knobs": SMALL, "recipe": {"steps": STEPS, "tasks": 4, "group": 8},
            "measured": {"dev": 24, "gate": 60, "knobs": SMALL},
            "backtest": {"tasks": 8, "samples": 2, "on": False}, "budget": {"rollouts": 1000},
            **changes,
        },
        "test",
    )  # fmt: skip
    ledger = Ledger.create(folder, experiment.model_dump(mode="json"))
    measuring = Measuring(experiment, LAKE, load)
    engineers = lambda checkpoint: {"saying": lambda: Saying(words)}  # noqa: E731
    return Rounds(experiment, ledger, LAKE, Pretended(scripts), engineers, measuring)
