"""Two policies on the same tasks: how far apart, with an interval that knows they are paired."""

from collections.abc import Iterable, Sequence
from statistics import mean

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from coevolve.core.rollout import Rollout, Value
from coevolve.core.seeds import derive
from coevolve.harness.plan import RATES

RESAMPLES = 4_000
TAIL = 0.025
"""Beyond either end of an interval."""
FEW = 64
"""Different changes of a task up to which they are counted."""
AT_ONCE = 2_000_000
"""Drawn numbers in memory."""
POINTS = " points"


class Difference(Value):
    """Mean change from before to after, per task."""

    mean: float
    low: float
    high: float
    p: float
    """Chance of at least so lopsided a split of the tasks that changed, if neither were better."""
    n: int

    @property
    def same(self) -> bool:
        """Whether no task differs: its interval has no width then, which is no certainty."""
        return self.n > 0 and self.mean == self.low == self.high == 0

    def told(self, metric: str = "valid") -> str:
        """In words, by the metric that it is a change of."""
        if self.same:
            return f"no task differs, n {self.n}"
        low, high = (shift(one, metric).removesuffix(POINTS) for one in (self.low, self.high))
        return f"{shift(self.mean, metric)} [{low}, {high}], n {self.n}"


def shift(change: float, metric: str) -> str:
    """A change in words: of a rate in percentage points, of any other metric as it is."""
    return f"{100 * change:+.1f}{POINTS}" if metric in RATES else f"{change:+.3f}"


def stands(value: float, metric: str) -> str:
    """A value in words: a rate in percent, any other metric as it is."""
    return f"{100 * value:.1f} %" if metric in RATES else f"{value:.3f}"


def paired(
    before: Sequence[float], after: Sequence[float], seed: int = 0, tail: float = TAIL
) -> Difference:
    """The change over tasks: bootstrap interval, of 95 % unless told, and a two-sided sign test."""
    if len(before) != len(after):
        raise ValueError(f"{len(before)} results before, {len(after)} after: not the same tasks")
    changes = np.asarray(after, dtype=float) - np.asarray(before, dtype=float)
    n = len(changes)
    if not n:
        return Difference(mean=0.0, low=-1.0, high=1.0, p=1.0, n=0)
    up, down = int((changes > 0).sum()), int((changes < 0).sum())
    p = float(binomtest(up, up + down).pvalue) if up + down else 1.0
    rng = np.random.default_rng(derive(seed, "paired", n))
    means = resampled(changes, rng)
    low, high = np.quantile(means, (tail, 1 - tail))
    return Difference(mean=float(changes.mean()), low=float(low), high=float(high), p=p, n=n)


def resampled(changes: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Means of resampled tasks. Where changes take few values, as many tasks as have each are drawn
    at once, which is the same and far quicker."""
    values, counts = np.unique(changes, return_counts=True)
    n = len(changes)
    if len(values) <= FEW:
        drawn = rng.multinomial(n, counts / n, size=RESAMPLES)
        few: NDArray[np.float64] = drawn @ values / n
        return few
    size = max(1, min(RESAMPLES, AT_ONCE // n))
    portions = [min(size, RESAMPLES - begun) for begun in range(0, RESAMPLES, size)]
    return np.concatenate(
        [changes[rng.integers(n, size=(rows, n))].mean(axis=1) for rows in portions]
    )


def by_task(rollouts: Iterable[Rollout], metric: str = "valid") -> list[float]:
    """The mean of each task, in their order: several attempts at one count as one."""
    listed = list(rollouts)
    return means_by_task(listed, [getattr(one.outcome, metric) for one in listed])


def means_by_task(rollouts: Sequence[Rollout], values: Sequence[float]) -> list[float]:
    """The mean of the values of each task's rollouts."""
    tasks: dict[str, list[float]] = {}
    for one, value in zip(rollouts, values, strict=True):
        tasks.setdefault(one.task_id, []).append(value)
    return [mean(several) for several in tasks.values()]
