"""Probes: what knobs would be worth, before anything is trained on them.

A checkpoint answers a few fresh train tasks of the knobs, several times each: the signal in the
answers is what GRPO could learn from.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from coevolve.core.rollout import Rollout
from coevolve.core.seeds import derive
from coevolve.domains.knobs import Knobs
from coevolve.evaluation.statistics import Interval, Rate, wilson
from coevolve.harness.expression import Numbers
from coevolve.policies.base import tokens
from coevolve.store.cells import Cell, cells_of, merged

INCUMBENT = "incumbent"
"""The candidate whose knobs are in force."""
RESAMPLES = 2_000
SOLVED = 0.9


class Candidate(NamedTuple):
    """Knobs that may be used next."""

    name: str
    """Who proposed them; `incumbent` for those in force."""
    knobs: Knobs
    words: str = ""
    """What their engineer said of them."""


class Probe(NamedTuple):
    """What was measured of a candidate."""

    candidate: Candidate
    alive: Rate
    """Share of groups with signal."""
    signal: Interval
    """Mean variance of rewards within a group: what GRPO can learn from."""
    better: float
    """Chance that its signal is above the incumbent's."""
    forgotten: Rate
    """Share of the kinds that the incumbent's tasks have solved that its own tasks leave out."""
    tokens: Interval
    """Mean tokens per rollout, prompt and answer: the cost."""


def measure(
    candidate: Candidate, rollouts: Sequence[Rollout], base: Sequence[Rollout], seed: int
) -> Probe:
    """The numbers of one candidate beside the incumbent's rollouts."""
    rng = np.random.default_rng(derive(seed, "backtest", candidate.name))
    signal, sizes = by_group(rollouts, reward, np.var), by_group(rollouts, size, np.mean)
    drawn, against = resampled(signal, rng), resampled(by_group(base, reward, np.var), rng)
    cells = cells_of(rollouts)
    groups = sum(cell.groups for cell in cells)
    return Probe(
        candidate,
        wilson(groups - sum(cell.dead for cell in cells), groups),
        interval(signal, drawn),
        0.5 if candidate.name == INCUMBENT else float((drawn > against).mean()),
        forgotten(cells, cells_of(base)),
        interval(sizes, resampled(sizes, rng)),
    )


def forgotten(cells: Sequence[Cell], base: Sequence[Cell]) -> Rate:
    """Of the kinds of tasks that the incumbent has solved, the share that hardly occurs any more.

    Kinds are taken by one label at a time, the coarsest that training balances.
    """
    lost = solved = 0
    total, before = sum(cell.n for cell in cells), sum(cell.n for cell in base)
    for name in base[0].labels if base else ():
        now = {cell.labels[name]: cell.n / total for cell in merged(cells, [name])}
        for cell in merged(base, [name]):
            if cell.rate >= SOLVED and cell.n >= 8:
                solved += 1
                lost += now.get(cell.labels[name], 0.0) < 0.2 * cell.n / before
    return wilson(lost, solved)


def reward(rollout: Rollout) -> float:
    return rollout.outcome.reward


def size(rollout: Rollout) -> float:
    """Tokens, prompt and answer."""
    return tokens([rollout])


def by_group(
    rollouts: Sequence[Rollout], what: Callable[[Rollout], float], of: Callable[[list[float]], Any]
) -> Numbers:
    """One number for each group, from something of its rollouts."""
    groups: dict[str, list[float]] = {}
    for rollout in rollouts:
        groups.setdefault(rollout.group or rollout.task_id, []).append(what(rollout))
    return np.array([of(values) for values in groups.values()], dtype=np.float64)


def resampled(values: Numbers, rng: np.random.Generator) -> Numbers:
    """Means of resampled groups."""
    picks = rng.integers(len(values), size=(RESAMPLES, len(values)))
    means: Numbers = values[picks].mean(axis=1)
    return means


def interval(values: Numbers, means: Numbers) -> Interval:
    low, high = np.quantile(means, (0.025, 0.975))
    return Interval(float(values.mean()), float(low), float(high))
