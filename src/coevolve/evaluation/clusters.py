"""Rates over several attempts at each task, with intervals that know attempts are not independent.

Attempts at one task succeed or fail together, so n attempts tell less than n tasks would. Every
interval here is Wilson's with the effective sample size: n divided by the design effect, which is
the variance measured between tasks over the one that independent attempts would have.
Invariant: with one attempt at each of n different tasks it is the plain Wilson interval.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

from coevolve.core.rollout import Rollout
from coevolve.core.task import Label
from coevolve.evaluation.passk import pass_at, powers_up_to
from coevolve.evaluation.statistics import Rate
from coevolve.evaluation.tally import Summary, Tally

Z = NormalDist().inv_cdf(0.975)
"""Of 95 % intervals."""


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


def mean_and_variance(parts: Sequence[Part]) -> tuple[float, float | None]:
    """The mean over everything, and the variance of that mean; None with fewer than two tasks.

    A task that is listed twice counts twice but is one cluster: its answers are the same.
    """
    clusters: dict[str, list[float]] = {}
    for task_id, total, size in parts:
        cluster = clusters.setdefault(task_id, [0.0, 0])
        cluster[0] += total
        cluster[1] += size
    n = sum(part.size for part in parts)
    mean = sum(part.total for part in parts) / n
    count = len(clusters)
    if count < 2:
        return mean, None
    squares = sum((total - mean * size) ** 2 for total, size in clusters.values())
    return mean, count / (count - 1) * squares / n**2


def share(parts: Sequence[Part], attempts: int) -> Estimate:
    """The mean of numbers from 0 to 1 with its Wilson interval at the effective sample size."""
    if not parts:
        return Estimate(0.0, 0.0, 1.0, 0)
    mean, variance = mean_and_variance(parts)
    # The fewest the data can be worth: each task once, less where some weigh more than others.
    sizes: dict[str, int] = {}
    for part in parts:
        sizes[part.task_id] = sizes.get(part.task_id, 0) + part.size
    least = sum(sizes.values()) ** 2 / sum(size**2 for size in sizes.values())
    return Estimate(mean, *interval(mean, variance, least, attempts), len(parts))


def interval(
    mean: float, variance: float | None, least: float, attempts: int
) -> tuple[float, float]:
    """Wilson's at the effective sample size, which is at least `least`."""
    spread = mean * (1 - mean)
    # Where all agree, nothing is known of how attempts hang together: suppose entirely.
    worth = spread / variance if variance and spread > 0 else least
    return score_interval(mean, min(max(worth, least), max(attempts, least)))


def score_interval(value: float, n: float) -> tuple[float, float]:
    """Wilson's interval (95 %) for a share of `n` trials, where `n` need not be whole."""
    centre = value + Z**2 / (2 * n)
    reach = Z * sqrt(value * (1 - value) / n + (Z / (2 * n)) ** 2)
    scale = 1 + Z**2 / n
    low = 0.0 if value <= 0 else (centre - reach) / scale
    high = 1.0 if value >= 1 else (centre + reach) / scale
    return max(0.0, low), min(1.0, high)


@dataclass
class Listed:
    """The attempts at one task of the list."""

    task_id: str
    attempts: int = 0
    valid: int = 0
    optimal: int = 0
    reward: float = 0.0


class ClusteredTally(Tally):
    """A tally that remembers which attempts were at the same task.

    Rollouts come task by task; sample 0 begins a task.
    """

    def __init__(self) -> None:
        super().__init__()
        self.listed: dict[tuple[tuple[str, Label], ...], list[Listed]] = {}
        self.samples = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.seconds = 0.0

    def add(self, rollout: Rollout) -> None:
        super().add(rollout)
        listed = self.listed.setdefault(tuple(sorted(rollout.bucket.items())), [])
        if rollout.sample == 0:
            listed.append(Listed(rollout.task_id))
        listed[-1].attempts += 1
        listed[-1].valid += rollout.outcome.valid
        listed[-1].optimal += rollout.outcome.optimal
        listed[-1].reward += rollout.outcome.reward
        self.samples = max(self.samples, rollout.sample + 1)
        self.prompt_tokens += rollout.prompt_tokens
        self.completion_tokens += rollout.completion_tokens
        self.seconds += rollout.seconds

    def by(self, labels: Sequence[str]) -> list[Summary]:
        """As a plain tally groups, with intervals that count attempts for what they are worth."""
        groups: dict[tuple[Label | None, ...], list[Listed]] = {}
        for key, listed in self.listed.items():
            bucket = dict(key)
            groups.setdefault(tuple(bucket.get(label) for label in labels), []).extend(listed)
        found = []
        for summary in super().by(labels):
            group = groups.get(tuple(summary.labels.values()), [])
            valid = (Part(one.task_id, one.valid, one.attempts) for one in group)
            optimal = (Part(one.task_id, one.optimal, one.attempts) for one in group)
            found.append(
                summary._replace(
                    valid=with_interval(summary.valid, valid),
                    optimal=with_interval(summary.optimal, optimal),
                )
            )
        return found

    def every(self) -> list[Listed]:
        """All listed tasks."""
        return [one for listed in self.listed.values() for one in listed]

    def pass_at(self) -> dict[int, Estimate]:
        """pass@k for k = 1, 2, 4, ... up to the number of samples; valid answers pass."""
        tasks, found = self.every(), {}
        for k in powers_up_to(self.samples):
            parts = [Part(one.task_id, pass_at(k, one.attempts, one.valid), 1) for one in tasks]
            found[k] = share(parts, sum(one.attempts for one in tasks))
        return found

    def reward_interval(self) -> tuple[float, float] | None:
        """Of the mean reward, by the normal approximation over tasks; None with fewer than two."""
        parts = [Part(one.task_id, one.reward, one.attempts) for one in self.every()]
        if not parts:
            return None
        mean, variance = mean_and_variance(parts)
        if variance is None:
            return None
        reach = Z * sqrt(variance)
        return mean - reach, mean + reach


def rate_of(rollouts: Sequence[Rollout], metric: str = "valid") -> Rate:
    """The share of attempts that are valid, or optimal, with the interval over tasks."""
    return rate_over([Part(one.task_id, getattr(one.outcome, metric), 1) for one in rollouts])


def rate_over(parts: Sequence[Part]) -> Rate:
    """The share of successes with the interval over tasks."""
    n = sum(part.size for part in parts)
    return with_interval(Rate(int(sum(part.total for part in parts)), n, 0.0, 1.0), parts)


def with_interval(rate: Rate, parts: Iterable[Part]) -> Rate:
    """The same rate with the interval over tasks."""
    estimate = share(list(parts), rate.n)
    return rate._replace(low=estimate.low, high=estimate.high)


def cautious(successes: int, n: int, tasks: int) -> Rate:
    """The rate where only counts are known: all attempts at a task are worth one."""
    return Rate(successes, n, *score_interval(successes / n, tasks)) if n else Rate(0, 0, 0.0, 1.0)


class Sums(NamedTuple):
    """What the interval needs of tasks that are too many to list."""

    tasks: int
    successes: int
    n: int
    """Attempts."""
    squares: int
    """Of the successes at each task."""
    products: int
    """Of the successes and the attempts at each."""
    sizes: int
    """Squares of the attempts at each."""

    def rate(self) -> Rate:
        """As `rate_over` has it."""
        tasks, successes, n, squares, products, sizes = self
        if not n:
            return Rate(0, 0, 0.0, 1.0)
        apart = n**2 * squares - 2 * n * successes * products + successes**2 * sizes
        variance = tasks * apart / ((tasks - 1) * n**4) if tasks > 1 else None
        return Rate(successes, n, *interval(successes / n, variance, n**2 / sizes, n))
