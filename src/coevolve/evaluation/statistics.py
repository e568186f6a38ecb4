"""Estimates with their uncertainty."""

from typing import NamedTuple


class Rate(NamedTuple):
    """A share of successes with its Wilson interval (95 %)."""

    successes: int
    n: int
    low: float
    high: float

    @property
    def value(self) -> float:
        return self.successes / self.n if self.n else 0.0

    def as_json(self) -> dict[str, float | int]:
        return {
            "rate": self.value,
            "successes": self.successes,
            "n": self.n,
            "low": self.low,
            "high": self.high,
        }


def wilson(successes: int, n: int, confidence: float = 0.95) -> Rate:
    """The rate and its Wilson score interval; with no trials the interval is everything."""
    if n == 0:
        return Rate(0, 0, 0.0, 1.0)
    from scipy.stats import binomtest

    interval = binomtest(successes, n).proportion_ci(confidence, method="wilson")
    return Rate(successes, n, float(interval.low), float(interval.high))
