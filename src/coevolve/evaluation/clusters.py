"""Rates over several attempts at each task, with intervals that know attempts are not independent.

Attempts at one task succeed or fail together, so n attempts tell less than n tasks would. Every
interval here is Wilson's with the effective sample size: n divided by the design effect, which is
the variance measured between tasks over the one that independent attempts would have.
Invariant: with one attempt at each of n different tasks it is the plain Wilson interval.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coevolve.core.rollout import Rollout
from coevolve.evaluation.statistics import Rate, score_interval

ByTask = NDArray[Any]
"""A number for each task."""


class Part(NamedTuple):
    """What one listed task adds to a mean."""

    task_id: str
    total: float
    size: int


class Estimate(NamedTuple):
    """A mean over tasks with its interval (95 %)."""

    value: float
    low: float
    high: float
    tasks: int

    def as_json(self) -> dict[str, float | int]:
        return {"rate": self.value, "low": self.low, "high": self.high, "tasks": self.tasks}


def clustered(parts: Sequence[Part]) -> tuple[ByTask, ByTask]:
    """The total and the size of each task.

    A task that is listed twice counts twice but is one cluster: its answers are the same.
    """
    clusters: dict[str, list[float]] = {}
    for task_id, total, size in parts:
        cluster = clusters.setdefault(task_id, [0.0, 0])
        cluster[0] += total
        cluster[1] += size
    table = np.array(list(clusters.values()), dtype=float).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def mean_and_variance(totals: ByTask, sizes: ByTask) -> tuple[float, float | None]:
    """The mean over everything, and the variance of that mean; None with fewer than two tasks."""
    n, count = float(sizes.sum()), len(sizes)
    mean = float(totals.sum()) / n
    if count < 2:
        return mean, None
    return mean, count / (count - 1) * float(((totals - mean * sizes) ** 2).sum()) / n**2


def interval(totals: ByTask, sizes: ByTask, attempts: int) -> tuple[float, float]:
    """Of the mean of numbers from 0 to 1: Wilson's at the effective sample size."""
    if not len(sizes):
        return 0.0, 1.0
    mean, variance = mean_and_variance(totals, sizes)
    # The fewest the data can be worth: each task once, less where some weigh more than others.
    least = float(sizes.sum()) ** 2 / float((sizes**2).sum())
    spread = mean * (1 - mean)
    # Where all agree, nothing is known of how attempts hang together: suppose entirely.
    worth = spread / variance if variance and spread > 0 else least
    return score_interval(mean, min(max(worth, least), max(attempts, least)))


def share(parts: Sequence[Part], attempts: int) -> Estimate:
    """The mean of numbers from 0 to 1 with its interval over tasks."""
    totals, sizes = clustered(parts)
    mean = float(totals.sum() / sizes.sum()) if parts else 0.0
    return Estimate(mean, *interval(totals, sizes, attempts), len(parts))


def rate_by_task(successes: ByTask, attempts: ByTask) -> Rate:
    """The share of successes, of which each task has some, with the interval over tasks."""
    n = int(attempts.sum())
    return Rate(int(successes.sum()), n, *interval(successes, attempts, n))


def rate_over(parts: Sequence[Part]) -> Rate:
    """The share of successes with the interval over tasks."""
    return rate_by_task(*clustered(parts))


def rate_of(rollouts: Sequence[Rollout], metric: str = "valid") -> Rate:
    """The share of attempts that are valid, or optimal, with the interval over tasks."""
    return rate_over([Part(one.task_id, getattr(one.outcome, metric), 1) for one in rollouts])


def cautious(successes: int, n: int, tasks: int) -> Rate:
    """The rate where only counts are known: all attempts at a task are worth one."""
    return Rate(successes, n, *score_interval(successes / n, tasks)) if n else Rate(0, 0, 0.0, 1.0)
