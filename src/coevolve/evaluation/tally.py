"""Counting what came of rollouts, by bucket, without keeping them."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from coevolve.core.rollout import Rollout
from coevolve.core.task import Label
from coevolve.evaluation.statistics import Rate, wilson


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


class Tally:
    """Counts outcomes by bucket without keeping the rollouts."""

    def __init__(self) -> None:
        self.groups: dict[tuple[tuple[str, Label], ...], list[Any]] = {}

    def add(self, rollout: Rollout) -> None:
        key = tuple(sorted(rollout.bucket.items()))
        group = self.groups.setdefault(key, [0, 0, 0, 0.0, Counter()])
        group[0] += 1
        group[1] += rollout.outcome.valid
        group[2] += rollout.outcome.optimal
        group[3] += rollout.outcome.reward
        if rollout.outcome.failure:
            group[4][rollout.outcome.failure] += 1

    def by(self, labels: Sequence[str]) -> list[Summary]:
        """Summaries grouped by some of the bucket labels; by none of them, one for everything."""
        merged: dict[tuple[Any, ...], list[Any]] = {}
        for key, group in self.groups.items():
            bucket = dict(key)
            target = merged.setdefault(
                tuple(bucket.get(label) for label in labels), [0, 0, 0, 0.0, Counter()]
            )
            for position in range(5):
                target[position] += group[position]
        if not merged and not labels:
            merged[()] = [0, 0, 0, 0.0, Counter()]
        return [
            Summary(
                dict(zip(labels, values, strict=True)),
                wilson(valid, n),
                wilson(optimal, n),
                reward / n if n else 0.0,
                dict(failures.most_common()),
            )
            for values, (n, valid, optimal, reward, failures) in sorted(
                merged.items(), key=lambda item: tuple(map(str_key, item[0]))
            )
        ]


def str_key(value: Label | None) -> tuple[str, float, str]:
    """A sort key that puts numbers in numeric order and copes with mixed labels."""
    if isinstance(value, int | float):
        return ("number", float(value), "")
    return ("text", 0.0, str(value))


def tally(found: Iterable[Rollout], on_each: Callable[[Rollout], None] | None = None) -> Tally:
    """Count rollouts as they come."""
    result = Tally()
    for rollout in found:
        result.add(rollout)
        if on_each:
            on_each(rollout)
    return result
