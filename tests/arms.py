"""What tests of comparisons share: arms whose training is pretended."""

import hashlib
import os
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from coevolve.core.errors import UserError
from coevolve.core.task import Task
from coevolve.engines.base import Observe, Result, Stage
from coevolve.harness.comparison import Comparison, make_comparison
from coevolve.loop.compare import finish_arm
from coevolve.store.evaluations import EvaluationFolder

SMALL = {"size3.data_ratio": 0.5, "size4.data_ratio": 0.5, "agents3.share": 1.0}


def comparison(**changes: Any) -> Comparison:
    """A small comparison with a script for a policy."""
    return make_comparison(
        {
            "name": "test", "seeds": 1, "tasks": 40,
            "plan": {
                "policy": "greedy", "versions": 2, "knobs": SMALL,
                "recipe": {"steps": 2, "tasks": 4},
                "target": {"dev": 24, "gate": 40, "knobs": SMALL},
                "backtest": {"tasks": 8, "samples": 2},
            },
            "arms": {"fixed": {"engineers": ["fixed"]}, "frontier": {"engineers": ["frontier"]}},
            **changes,
        },
        "test",
    )  # fmt: skip


class Pretended:
    """An engine that takes a moment, and whose policy is decided by its tasks."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.stages = seconds, []  # type: ignore[var-annotated]

    def train(self, stage: Stage, tasks: Sequence[Task], observe: Observe | None = None) -> Result:
        self.stages.append((stage, list(tasks)))
        time.sleep(self.seconds)
        mixed = hashlib.sha256(" ".join(task.id for task in tasks).encode()).digest()[0]
        policy = ("greedy", "prioritised", "waiter")[mixed % 3]
        return Result(policy=policy, steps=stage.recipe.steps, rollouts=64, tokens=640, seconds=1.0)

    def check(self, model: str, scripts: Collection[str]) -> None:
        pass


def quick(folder: Path) -> None:
    finish_arm(folder, Pretended())


def slow(folder: Path) -> None:
    """Long enough to be killed in the middle."""
    finish_arm(folder, Pretended(1.5))


def held(folder: Path) -> None:
    """In the middle of its second version's training every arm waits to be let go."""
    tell_where(folder)

    class Held(Pretended):
        def train(self, stage: Stage, *rest: Any) -> Result:
            if stage.folder.parent.name == "01":
                wait(folder)
            return super().train(stage, *rest)

    finish_arm(folder, Held())


def measured(folder: Path) -> None:
    """The same when a part of its second version's gate is answered."""
    tell_where(folder)
    plain = EvaluationFolder.keep

    def keep(self: EvaluationFolder, *part: Any) -> None:
        plain(self, *part)
        if self.folder.parts[-3:] == ("versions", "01", "gate"):
            wait(folder)

    parts = mock.patch.object(EvaluationFolder, "keep", keep)
    with parts, mock.patch("coevolve.store.gauge.BATCH", 16):
        finish_arm(folder, Pretended())


def tell_where(folder: Path) -> None:
    """Leave word of the Ray node and the process that an arm runs in."""
    import ray

    node = ray.get_runtime_context().get_node_id()
    (folder / "where").write_text(f"{node} {os.getpid()}")


def wait(folder: Path) -> None:
    """For a file `go` beside the arms."""
    end = time.monotonic() + 300
    while not (folder.parents[1] / "go").exists():
        assert time.monotonic() < end
        time.sleep(0.05)


def failing(folder: Path) -> None:
    """One arm has a user's mistake in it, another a programmer's."""
    if "frontier/seed-0" in str(folder):
        raise UserError("no such thing")
    if "fixed/seed-0" in str(folder):
        raise ZeroDivisionError("by zero")
    quick(folder)


def dying(folder: Path) -> None:
    """The first process in each folder is killed at its second version."""
    if (folder / "versions/00/gate.json").exists() or "untrained" in str(folder):
        return quick(folder)

    class Dying(Pretended):
        def train(self, stage: Stage, *rest: Any) -> Result:
            if stage.folder.parent.name == "01":
                os.kill(os.getpid(), 9)
            return super().train(stage, *rest)

    return finish_arm(folder, Dying())
