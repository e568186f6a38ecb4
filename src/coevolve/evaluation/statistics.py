"""Estimates with their uncertainty."""

from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

Z = NormalDist().inv_cdf(0.975)
"""Of 95 % intervals."""


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
        return {"rate": self.value, **self._asdict()}


class Interval(NamedTuple):
    """A mean with its interval (95 %)."""

    mean: float
    low: float
    high: float


def wilson(successes: int, n: int, confidence: float = 0.95) -> Rate:
    """The rate and its Wilson score interval; with no trials the interval is everything."""
    if n == 0:
        return Rate(0, 0, 0.0, 1.0)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    return Rate(successes, n, *score_interval(successes / n, n, z))


def score_interval(value: float, n: float, z: float = Z) -> tuple[float, float]:
    """Wilson's interval for a share of `n` trials, where `n` need not be whole."""
    # In closed form: a page may show thousands, and scipy takes milliseconds for each.
    centre = value + z**2 / (2 * n)
    reach = z * sqrt(value * (1 - value) / n + (z / (2 * n)) ** 2)
    scale = 1 + z**2 / n
    low = 0.0 if value <= 0 else (centre - reach) / scale
    high = 1.0 if value >= 1 else (centre + reach) / scale
    return max(0.0, low), min(1.0, high)
