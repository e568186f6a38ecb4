"""Measuring: a checkpoint on dev and gate tasks, and in the clean room, as it is recorded."""

import time
from collections.abc import Sequence
from pathlib import Path

from coevolve.core.rollout import Rollout
from coevolve.engineers.cases import choose_cases
from coevolve.harness.budget import Spent
from coevolve.policies.base import tokens
from coevolve.store.cells import cells_of
from coevolve.store.gauge import Gauge
from coevolve.store.phases import Dev, Scores, scores_of

CASES = 4
"""Failures that an engineer may look at."""


def spent_on(rollouts: Sequence[Rollout], began: float) -> Spent:
    """What was used up to make rollouts, since the clock said `began`."""
    return Spent(rollouts=len(rollouts), tokens=tokens(rollouts), seconds=time.monotonic() - began)


def on_dev(gauge: Gauge, policy: str, folder: Path, number: int) -> Dev:
    """A checkpoint on dev tasks, as engineers see it."""
    began = time.monotonic()
    rollouts = gauge.measure(policy, gauge.dev, folder)
    cases = choose_cases([one for one in rollouts if one.outcome.failure], CASES, number)
    return Dev(cells=tuple(cells_of(rollouts)), cases=tuple(cases), spent=spent_on(rollouts, began))


def on_gate(gauge: Gauge, policy: str, folder: Path, draw: int = 0) -> Scores:
    """A checkpoint on gate tasks, in sum."""
    began = time.monotonic()
    rollouts = gauge.measure(policy, gauge.gate, folder, draw)
    return scores_of(rollouts, spent_on(rollouts, began))


def in_clean_room(gauge: Gauge, policy: str, folder: Path) -> Scores:
    """A checkpoint in the clean room, in sum."""
    began = time.monotonic()
    rollouts = gauge.measure_clean(policy, folder)
    return scores_of(rollouts, spent_on(rollouts, began))
