"""What training learns from rewards: advantages, live groups, and where they push the policy.

Advantages are those of GRPO as the engine computes them. A small step along the policy gradient
moves the mean of any fact of rollouts in the direction of the mean of advantage times fact, less
the fact's mean in the group: its push, told in standard deviations of the fact.
"""

from typing import NamedTuple

import numpy as np

from coevolve.backtests.numbers import mean
from coevolve.backtests.replay import Stored
from coevolve.harness.backtest import Measure
from coevolve.harness.expression import Numbers
from coevolve.harness.filters import Flags
from coevolve.store.cells import SAME

SMALLEST = 1e-4
"""What the engine adds to the spread of a group before dividing by it."""


class Signal(NamedTuple):
    """What a reward, and filters, make of stored rollouts."""

    rewards: Numbers
    advantages: Numbers
    """0 for what is left out."""
    live: Flags
    """By group: whether its rewards differ."""
    used: Flags
    """By rollout: whether anything is learned from it."""


def signal_of(stored: Stored, rewards: Numbers, weights: Numbers, scaled: bool = True) -> Signal:
    """Advantages within groups, as they are weighed; `scaled` by the spread of the group, as most
    losses want it."""
    apart = centred(stored, rewards)
    variance = over_groups(stored, apart**2) / np.maximum(sizes_of(stored) - 1, 1)
    live = ranges(stored, rewards) >= SAME
    advantages = apart / (np.sqrt(variance) + SMALLEST)[stored.group] if scaled else apart
    used = live[stored.group] & (weights > 0)
    return Signal(rewards, np.where(used, advantages * weights, 0.0), live, used)


def push(stored: Stored, before: Signal, after: Signal, fact: Numbers) -> Measure:
    """How much harder the fact is pushed up than before, per rollout; groups are the sample."""
    change = over_groups(stored, (after.advantages - before.advantages) * standard(stored, fact))
    return mean(change / (stored.n / stored.groups))


def push_per_used(stored: Stored, before: Signal, after: Signal, fact: Numbers) -> Measure:
    """The same per rollout that is learned from: whether the better data were kept."""
    ratios, residuals = [], []
    for one in (before, after):
        amount = over_groups(stored, one.used.astype(np.float64))
        pushed = over_groups(stored, one.advantages * standard(stored, fact))
        if not amount.any():
            return Measure(value=0.0, n=0)
        ratio = pushed.sum() / amount.sum()
        ratios.append(ratio)
        residuals.append((pushed - ratio * amount) / amount.mean())
    # Both are ratios of sums over the same groups; their difference varies like these residuals.
    return mean(ratios[1] - ratios[0] + residuals[1] - residuals[0])


def standard(stored: Stored, fact: Numbers) -> Numbers:
    """Beyond the mean of its group, in standard deviations: tokens and truths by one rule."""
    spread = float(fact.std())
    return centred(stored, fact) / spread if spread > 0 else np.zeros_like(fact)


def change_of(before: Signal, after: Signal) -> Measure:
    """Mean size of the change of advantages, in spreads of a group."""
    return mean(np.abs(after.advantages - before.advantages))


def sizes_of(stored: Stored) -> Numbers:
    return np.bincount(stored.group, minlength=stored.groups).astype(np.float64)


def over_groups(stored: Stored, values: Numbers) -> Numbers:
    """Sums by group."""
    return np.bincount(stored.group, values, minlength=stored.groups).astype(np.float64)


def centred(stored: Stored, values: Numbers) -> Numbers:
    """Beyond the mean of their group."""
    return values - (over_groups(stored, values) / sizes_of(stored))[stored.group]


def ranges(stored: Stored, values: Numbers) -> Numbers:
    """By group, how far apart its highest and lowest value are."""
    if not stored.n:
        return values
    starts = np.flatnonzero(np.diff(stored.group, prepend=-1))
    return np.maximum.reduceat(values, starts) - np.minimum.reduceat(values, starts)
