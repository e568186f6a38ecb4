"""Whether rewards put better results above worse ones, and what they pay for among equal results.

Pairs are taken within groups, since only there are rewards compared.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coevolve.backtests.numbers import count, share
from coevolve.backtests.replay import Stored
from coevolve.harness.backtest import Measure
from coevolve.harness.expression import Numbers
from coevolve.harness.filters import Flags
from coevolve.store.cells import SAME

RESULTS = ("solved", "tests", "accuracy", "passed")
"""Reward components that say how good a result is, where a domain has them."""


Rows = NDArray[np.int64]


class Pairs(NamedTuple):
    """Rollouts of one group, two by two."""

    one: Rows
    other: Rows
    """Where they are ordered, the worse."""
    ordered: Flags
    equal: Flags
    """Neither result is better."""


def pairs_of(stored: Stored, components: Mapping[str, object]) -> Iterator[Pairs]:
    """All pairs, by how far apart the two lie."""
    results = [stored.facts[name] for name in RESULTS if name in components]
    largest = int(np.bincount(stored.group).max(initial=0)) if stored.n else 0
    for distance in range(1, largest):
        first = np.arange(stored.n - distance)
        first = first[stored.group[first] == stored.group[first + distance]]
        second = first + distance
        order = compared(stored.facts["valid"], first, second)
        order = np.where(order == 0, compared(stored.facts["optimal"], first, second), order)
        parts = [compared(result, first, second) for result in results]
        if parts:  # better where nothing is worse and something is better
            least, most = np.minimum.reduce(parts), np.maximum.reduce(parts)
            finer = np.where(least >= 0, most, np.where(most <= 0, least, np.nan))
            order = np.where(order == 0, finer, order)
        swapped = order < 0
        one, other = np.where(swapped, second, first), np.where(swapped, first, second)
        yield Pairs(one, other, np.abs(order) == 1, order == 0)


def compared(values: Numbers, first: Rows, second: Rows) -> Numbers:
    """1 where the first is larger, -1 where the second is."""
    apart = values[first] - values[second]
    return np.where(np.abs(apart) < SAME, 0.0, np.sign(apart))


def violations(pairs: list[Pairs], rewards: Numbers) -> Measure:
    """The share of pairs in which the worse result earns more."""
    wrong = total = 0
    for some in pairs:
        wrong += int((some.ordered & (rewards[some.other] > rewards[some.one] + SAME)).sum())
        total += int(some.ordered.sum())
    return share(wrong, total)


def told_apart(stored: Stored, pairs: list[Pairs], rewards: Numbers) -> Flags:
    """Groups in which some better result earns more than a worse one, and none earns less."""
    right, wrong = (np.zeros(stored.groups, dtype=bool) for _ in range(2))
    for some in pairs:
        ahead = rewards[some.one] - rewards[some.other]
        right[stored.group[some.one[some.ordered & (ahead >= SAME)]]] = True
        wrong[stored.group[some.one[some.ordered & (ahead <= -SAME)]]] = True
    return right & ~wrong


def paid_among_equals(pairs: list[Pairs], rewards: Numbers, fact: Numbers) -> Measure:
    """The correlation of reward and fact over pairs with equal results; 0 where nothing differs."""
    products = own = theirs = 0.0
    n = 0
    for some in pairs:
        chosen = some.equal
        earned = (rewards[some.one] - rewards[some.other])[chosen]
        differ = (fact[some.one] - fact[some.other])[chosen]
        products += float(earned @ differ)
        own += float(earned @ earned)
        theirs += float(differ @ differ)
        n += int(chosen.sum())
    scale = (own * theirs) ** 0.5
    return count(products / scale if scale > 0 else 0.0, n)


def correlation(one: Numbers, other: Numbers) -> Measure:
    """Over all rollouts; 0 where one of them is constant."""
    if len(one) < 2 or np.ptp(one) < SAME or np.ptp(other) < SAME:
        return count(0.0, len(one))
    return count(float(np.corrcoef(one, other)[0, 1]), len(one))
