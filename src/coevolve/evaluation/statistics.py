"""Estimates with their uncertainty."""

import math
from statistics import NormalDist
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


class Interval(NamedTuple):
    """A mean with its interval (95 %)."""

    mean: float
    low: float
    high: float


def wilson(successes: int, n: int, confidence: float = 0.95) -> Rate:
    """The rate and its Wilson score interval; with no trials the interval is everything."""
    if n == 0:
        return Rate(0, 0, 0.0, 1.0)
    # In closed form: a page may show thousands, and scipy takes milliseconds for each.
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share, spread = successes / n, 1 + z * z / n
    middle = (share + z * z / (2 * n)) / spread
    reach = z / spread * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low = middle - reach if successes else 0.0
    return Rate(successes, n, low, middle + reach if successes < n else 1.0)
