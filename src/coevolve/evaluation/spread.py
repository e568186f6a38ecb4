"""Noise between trainings: how far apart two trainings come out that differ by their seed alone.

Twins of the first version and controls tell. Few of them say little, so that they are mixed with a
guess, and what is left of doubt widens every interval (Student's, instead of the normal, quantile).
Invariant: more repeated trainings can only make the answer surer, never sure.
"""

from collections.abc import Sequence
from typing import NamedTuple

from scipy.stats import norm, t

from coevolve.evaluation.difference import TAIL, Difference

GUESS, WEIGHT = 0.02, 0.5
"""The spread that is guessed before anything was repeated, and how many repeats the guess is worth.
With two twins, patches that do nothing are then kept in at most one of thirty cases, whether
trainings lie half a point apart or ten."""


class Spread(NamedTuple):
    """Of the difference between two trainings, beyond the noise of measuring them."""

    value: float = 0.0
    repeats: int = 0
    """How many differences it was measured on; 0 with a value of 0: training has no noise."""

    def widened(self, change: Difference, tail: float = TAIL) -> Difference:
        """An interval for so much chance beyond either end, with the noise of training in it."""
        if not self.value and tail == TAIL:
            return change
        own = norm.isf(tail) / norm.isf(TAIL)
        extra = float(t.isf(tail, max(1.0, WEIGHT + self.repeats))) * self.value
        low = change.mean - (((change.mean - change.low) * own) ** 2 + extra**2) ** 0.5
        high = change.mean + (((change.high - change.mean) * own) ** 2 + extra**2) ** 0.5
        return change.model_copy(update={"low": low, "high": high})


def spread_of(pairs: Sequence[Difference], others: Sequence[Difference] = ()) -> Spread:
    """What differences between trainings of the same harness tell: `pairs` are those of some
    trainings, every one with every other, `others` have no training in common."""
    repeats = round(((1 + 8 * len(pairs)) ** 0.5 - 1) / 2)  # one less than there are trainings
    squares = sum(map(beyond, others))
    if pairs:
        squares += repeats * sum(map(beyond, pairs)) / len(pairs)
    repeats += len(others)
    total = WEIGHT * GUESS**2 + max(0.0, squares)
    return Spread((total / (WEIGHT + repeats)) ** 0.5, repeats)


def beyond(change: Difference) -> float:
    """The square of a difference, less what measuring alone brings."""
    return change.mean**2 - measured(change) ** 2


def measured(change: Difference) -> float:
    """The standard error of a difference, from its interval."""
    return float((change.high - change.low) / (2 * norm.isf(TAIL)))
