"""Counting what came of rollouts, by bucket and task, without keeping them.

Invariant: attempts at one task are counted together, so that intervals take them for what they are
worth.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import comb, sqrt
from typing import Any, NamedTuple

from coevolve.core.rollout import Rollout
from coevolve.core.task import Label
from coevolve.evaluation.clusters import (
    Estimate,
    Part,
    clustered,
    mean_and_variance,
    rate_over,
    share,
)
from coevolve.evaluation.statistics import Rate, Z


class Summary(NamedTuple):
    """Rates of one group of rollouts."""

    labels: dict[str, Label]
    valid: Rate
    optimal: Rate
    reward: float
    failures: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        return {
            **self.labels,
            "n": self.valid.n,
            "valid": self.valid.as_json(),
            "optimal": self.optimal.as_json(),
            "mean_reward": self.reward,
            "failures": self.failures,
        }


@dataclass
class Listed:
    """The attempts at one task of the list."""

    task_id: str
    attempts: int = 0
    valid: int = 0
    optimal: int = 0
    reward: float = 0.0


@dataclass
class Bucket:
    """All tasks with the same labels."""

    listed: list[Listed] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)


class Tally:
    """Counts outcomes by bucket and task.

    Rollouts come task by task; sample 0 begins a task.
    """

    def __init__(self) -> None:
        self.buckets: dict[tuple[tuple[str, Label], ...], Bucket] = {}
        self.samples = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.seconds = 0.0

    def add(self, rollout: Rollout) -> None:
        bucket = self.buckets.setdefault(tuple(sorted(rollout.bucket.items())), Bucket())
        outcome = rollout.outcome
        if rollout.sample == 0:
            bucket.listed.append(Listed(rollout.task_id))
        task = bucket.listed[-1]
        task.attempts += 1
        task.valid += outcome.valid
        task.optimal += outcome.optimal
        task.reward += outcome.reward
        if outcome.failure:
            bucket.failures[outcome.failure] += 1
        self.samples = max(self.samples, rollout.sample + 1)
        self.prompt_tokens += rollout.prompt_tokens
        self.completion_tokens += rollout.completion_tokens
        self.seconds += rollout.seconds

    def by(self, labels: Sequence[str]) -> list[Summary]:
        """Summaries grouped by some of the bucket labels; by none of them, one for everything."""
        groups: dict[tuple[Any, ...], list[Bucket]] = {} if labels else {(): []}
        for key, bucket in self.buckets.items():
            known = dict(key)
            groups.setdefault(tuple(known.get(label) for label in labels), []).append(bucket)
        return [
            summary_of(dict(zip(labels, values, strict=True)), groups[values])
            for values in sorted(groups, key=lambda values: tuple(map(str_key, values)))
        ]

    def every(self) -> list[Listed]:
        """All listed tasks."""
        return [one for bucket in self.buckets.values() for one in bucket.listed]

    def by_task(self, metric: str) -> dict[str, float]:
        """The share of attempts at each task that are valid, or optimal."""
        found: dict[str, list[Listed]] = {}
        for one in self.every():
            found.setdefault(one.task_id, []).append(one)
        return {
            name: sum(getattr(one, metric) for one in own) / sum(one.attempts for one in own)
            for name, own in found.items()
        }

    def pass_at(self) -> dict[int, Estimate]:
        """pass@k for k = 1, 2, 4, ... up to the number of samples; valid answers pass."""
        tasks, found = self.every(), {}
        for k in powers_up_to(self.samples):
            parts = [Part(one.task_id, pass_at(k, one.attempts, one.valid), 1) for one in tasks]
            found[k] = share(parts, sum(one.attempts for one in tasks))
        return found

    def reward_interval(self) -> tuple[float, float] | None:
        """Of the mean reward, by the normal approximation over tasks; None with fewer than two."""
        tasks = self.every()
        if len({one.task_id for one in tasks}) < 2:
            return None
        parts = [Part(one.task_id, one.reward, one.attempts) for one in tasks]
        mean, variance = mean_and_variance(*clustered(parts))
        reach = Z * sqrt(variance or 0.0)
        return mean - reach, mean + reach


def tally(found: Iterable[Rollout]) -> Tally:
    """Count rollouts as they come."""
    result = Tally()
    for rollout in found:
        result.add(rollout)
    return result


def summary_of(labels: dict[str, Label], buckets: Sequence[Bucket]) -> Summary:
    """Some buckets taken together."""
    tasks = [one for bucket in buckets for one in bucket.listed]
    valid = rate_over([Part(one.task_id, one.valid, one.attempts) for one in tasks])
    return Summary(
        labels,
        valid,
        rate_over([Part(one.task_id, one.optimal, one.attempts) for one in tasks]),
        sum(one.reward for one in tasks) / valid.n if tasks else 0.0,
        dict(sum((bucket.failures for bucket in buckets), Counter[str]()).most_common()),
    )


def str_key(value: Label | None) -> tuple[str, float, str]:
    """A sort key that puts numbers in numeric order and copes with mixed labels."""
    if isinstance(value, int | float):
        return ("number", float(value), "")
    return ("text", 0.0, str(value))


def pass_at(k: int, attempts: int, successes: int) -> float:
    """How likely one of `k` attempts at a task succeeds, from at least as many (Chen et al. 2021):
    exactly the share of all choices of `k` of the attempts that hold a success."""
    if not 1 <= k <= attempts or not 0 <= successes <= attempts:
        raise ValueError(
            f"pass@{k} of {successes} successes in {attempts} attempts: use 1 <= k <= attempts "
            "and 0 <= successes <= attempts"
        )
    choices = comb(attempts, k)
    # One division of whole numbers, so that pass@1 is the plain rate to the last bit.
    return (choices - comb(attempts - successes, k)) / choices


def powers_up_to(samples: int) -> list[int]:
    """The values of k to report: 1, 2, 4 and so on."""
    return [1 << exponent for exponent in range(samples.bit_length())]
