"""The work of one version, in its own folder: train from the first policy, measure on dev and gate.

    rounds/NN/order.json   what is to be done
    rounds/NN/stage, dev, gate
    rounds/NN/grown.json   what came of it

Invariant: it follows from the order alone. Killed at any instant and begun again, it goes on to the
same end, in any process on any machine that sees the folder.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from coevolve.core.files import replace_file
from coevolve.core.rollout import Value
from coevolve.engines.base import Engine, Observe, Result
from coevolve.evolution.deciding import gate_facts, shown
from coevolve.evolution.measuring import Measuring, measuring_of
from coevolve.evolution.training import stage_of, train_stage
from coevolve.harness.evolution import Evolution
from coevolve.harness.harness import Harness

ORDER, GROWN = "order.json", "grown.json"
WORK = "coevolve.evolution.growing:run_version"
"""For a cluster."""

Grow = Callable[[Sequence[Path]], None]
"""Does the work of all folders; when it returns, each has its `grown.json`."""


class Order(Value):
    """Everything that a version follows from."""

    number: int
    evolution: Evolution
    harness: Harness
    seed: int


class Grown(Value):
    """What came of a version."""

    train: dict[str, Any]
    dev: dict[str, Any]
    gate: dict[str, Any]

    @property
    def policy(self) -> str:
        return Result.model_validate(self.train["result"]).policy


def place_order(folder: Path, order: Order) -> None:
    replace_file(folder / ORDER, order.model_dump_json(indent=1).encode("utf-8"))


def grown(folder: Path) -> Grown | None:
    """What came of a version, once it is finished."""
    path = folder / GROWN
    return Grown.model_validate_json(path.read_bytes()) if path.is_file() else None


def run_version(folder: Path) -> None:
    """Do the work of a folder, training with TRL."""
    from coevolve.engines.trl.engine import TrlEngine

    grow(folder, TrlEngine(), None, None)


def one_by_one(engine: Engine, measuring: Measuring, observe: Observe | None) -> Grow:
    """In this process, one version after the other."""

    def work(folders: Sequence[Path]) -> None:
        for folder in folders:
            grow(folder, engine, measuring, observe)

    return work


def grow(
    folder: Path, engine: Engine, measuring: Measuring | None, observe: Observe | None
) -> None:
    """Do what is left of the work of a folder."""
    if grown(folder):
        return
    order = Order.model_validate_json((folder / ORDER).read_bytes())
    plan, harness = order.evolution, order.harness
    measuring = measuring or measuring_of(plan)
    stage = stage_of(plan, harness, plan.policy, order.seed, folder / "stage")
    train = train_stage(engine, measuring.domain, stage, harness, observe)
    policy = Result.model_validate(train["result"]).policy
    dev = shown(measuring, policy, folder / "dev", order.number)
    began = time.monotonic()
    rollouts = measuring.measure(policy, measuring.gate, folder / "gate")
    whole = Grown(train=train, dev=dev, gate=gate_facts(rollouts, began))
    replace_file(folder / GROWN, whole.model_dump_json(indent=1).encode("utf-8"))
