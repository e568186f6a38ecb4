"""Estimates over seeds: each seed is one whole run, and runs with the same seed are paired.

Tasks within a run share its luck, so with several seeds only the seeds are counted. With one seed
there is nothing but tasks to count, and `over` says so.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from scipy import stats

from coevolve.evaluation.clusters import interval
from coevolve.evaluation.difference import paired

Over = Literal["seeds", "tasks"]
Outcomes = Sequence[Sequence[float]]
"""For each seed, the share of successes at every task."""


class Mean(NamedTuple):
    """A mean rate with its interval (95 %)."""

    mean: float
    low: float
    high: float
    n: int
    over: Over
    """What n counts, and the interval generalises over."""


class Change(NamedTuple):
    """A mean difference of pairs with its interval (95 %)."""

    mean: float
    low: float
    high: float
    p: float
    """Two-sided: chance of at least such a difference if there were none."""
    n: int
    over: Over


def mean_rate(outcomes: Outcomes) -> Mean:
    """The mean over seeds with Student's interval; of one seed, Wilson's over its tasks."""
    rates = [float(np.mean(one)) for one in outcomes]
    if len(rates) == 1:
        values, n = np.asarray(outcomes[0], dtype=float), len(outcomes[0])
        return Mean(rates[0], *interval(values, np.ones(n), n), n, "tasks")
    mean, reach = student(rates)
    return Mean(mean, max(0.0, mean - reach), min(1.0, mean + reach), len(rates), "seeds")


def change(before: Outcomes, after: Outcomes, seed: int = 0) -> Change:
    """Paired: by seeds with Student's test, or for one seed by tasks with a bootstrap."""
    if len(before) == 1:
        one = paired(before[0], after[0], seed)
        return Change(one.mean, one.low, one.high, one.p, one.n, "tasks")
    changes = [
        float(np.mean(new)) - float(np.mean(old)) for old, new in zip(before, after, strict=True)
    ]
    mean, reach = student(changes)
    if reach > 0:
        p = float(stats.ttest_1samp(changes, 0.0).pvalue)
    else:  # all seeds agree to the last digit, of which Student's test would make certainty
        p = 1.0 if mean == 0 else 2 * 0.5 ** len(changes)
    return Change(mean, mean - reach, mean + reach, p, len(changes), "seeds")


def student(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and how far Student's 95 % interval reaches to either side."""
    n = len(values)
    spread = float(np.std(values, ddof=1))
    reach = float(stats.t.ppf(0.975, n - 1)) * spread / n**0.5 if spread > 1e-12 else 0.0
    return float(np.mean(values)), reach


def holm(ps: Sequence[float]) -> list[float]:
    """p values made larger for how many were looked at (Holm)."""
    order = np.argsort(ps, kind="stable")
    found = np.ones(len(ps))
    raised = np.sort(ps) * np.arange(len(ps), 0, -1)
    found[order] = np.minimum(1.0, np.maximum.accumulate(raised))
    return found.tolist()


def chance(p: float) -> str:
    """A p value in as many digits as it is good for."""
    return "<0.001" if p < 0.001 else f"{p:.2g}"
