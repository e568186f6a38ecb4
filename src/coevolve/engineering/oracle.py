"""The best design: what an engineer would make of the tasks that knew the trainee and the target.

Of each group, shares by what they bring towards the target, over and over until that is even; of
every difficulty knob a step up, a step down or none, whichever leaves most to learn for the target.
"""

import math
from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from coevolve.domains.knobs import Knob, Knobs
from coevolve.engineering.trainee import (
    FULL,
    GENERAL,
    ROOT,
    Kind,
    Numbers,
    Trainee,
    closeness,
    kinds,
    level,
    likeness,
    logits,
    needs,
    signals,
    tied,
)
from coevolve.engineers.reach import step

ROUNDS = 12
"""Times that shares are set anew; they hardly move after that."""


def best_design(
    trainee: Trainee, incumbent: Knobs, target: Knobs, offered: Iterable[str], reach: float
) -> dict[str, float]:
    """Values of the offered shares, and of the difficulty knobs that hang on them."""
    space, names = incumbent.space, set(offered)
    groups = [[name for name in members if name in names] for members in space.groups.values()]
    even = {name: 1 / len(group) for group in groups for name in group}
    everything = Knobs(space, {**incumbent, **even})
    made = kinds(everything)
    means = logits(trainee, everything, made)
    like = np.array([likeness(everything, target, kind) for kind in made])
    shares = best_shares(trainee, target, groups, made, signals(trainee, means) * like)
    parts = np.array([math.prod(shares[knob.name] for knob in kind.shares) for kind in made])
    values: dict[str, float] = {}
    for name in even:
        share = space.knobs[name]
        own = np.array([share in kind.shares for kind in made])
        for knob in tied(incumbent, share):
            best = best_step(trainee, incumbent[knob.name], target, share, knob, means[own],
                             parts[own], reach)  # fmt: skip
            moved = level(knob, best) - level(knob, incumbent[knob.name])
            means[own] -= trainee.slopes.get(knob.suffix, 0.0) * knob.harder * moved
            if target[name] > 0:
                before = closeness(knob, incumbent[knob.name], target)
                like[own] *= closeness(knob, best, target) / max(before, 1e-9)
            values[knob.name] = best
    return values | best_shares(trainee, target, groups, made, signals(trainee, means) * like)


def best_step(
    trainee: Trainee, now: float, target: Knobs, share: Knob, knob: Knob, means: Numbers,
    weights: Numbers, reach: float,
) -> float:  # fmt: skip
    """The value of one difficulty knob, at most a step away, that leaves most to learn."""
    values = [now, step(knob, now, True, reach), step(knob, now, False, reach)]
    tried = [min(max(value, knob.low), knob.high) for value in values]
    steep = trainee.slopes.get(knob.suffix, 0.0) * knob.harder

    def offers(value: float) -> float:
        shift = steep * (level(knob, value) - level(knob, now))
        near = closeness(knob, value, target) if target[share.name] > 0 else 1.0
        return near * float(weights @ signals(trainee, means - shift))

    return max(tried, key=offers)


def best_shares(
    trainee: Trainee, target: Knobs, groups: list[list[str]], made: list[Kind], worth: Numbers
) -> dict[str, float]:
    """Shares with which most is gained, where kinds are worth so much to learn from."""
    need, own = needs(trainee, target)
    order = {name: place for place, name in enumerate(n for group in groups for n in group)}
    member = np.zeros((len(order), len(made)))
    for place, kind in enumerate(made):
        for knob in kind.shares:
            member[order[knob.name], place] = 1.0
    wanted = np.array([own.get(name, 0.0) for name in order])
    shares = np.array([1 / len(group) for group in groups for _ in group])
    ends = np.cumsum([0, *map(len, groups)])
    for _ in range(ROUNDS):
        taught = worth * np.exp(member.T @ np.log(np.maximum(shares, 1e-12)))
        pull = wanted * ROOT * (np.maximum(member @ taught, 1e-12) / FULL) ** (ROOT - 1)
        credit = member @ (taught * (GENERAL * need + member.T @ pull))
        for begin, end in pairwise(ends):
            total = credit[begin:end].sum()
            if total > 0:
                shares[begin:end] = credit[begin:end] / total
    return {name: float(shares[place]) for name, place in order.items()}
