"""A simulated trainee: how often it succeeds at tasks made from knobs, and what it could learn.

A logistic model over shares and difficulty knobs, for any knob space: each share (a size, a number
of agents) has a difficulty of its own, each difficulty knob a slope, and tasks of one kind differ
by a normal spread. Drawn at random for lessons, or fitted to real rollouts (benchmarks/fit.py).
Training makes it better all over by what there is to learn from, and better still at the shares
that it learned from: more of the same counts ever less.

Invariant: everything follows from the parameters and the knobs; nothing here is random but `tried`.
"""

import math
from collections.abc import Iterable
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coevolve.core.rollout import Value
from coevolve.core.task import Label
from coevolve.domains.knobs import Knob, Knobs, KnobSpace
from coevolve.store.cells import Cell

Numbers = NDArray[np.float64]

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
"""For means over the normal spread."""
FULL = 0.25
"""The most that there is to learn from: every task is solved half of the time."""
GENERAL = 0.5
"""Part of what is learned that helps at every task."""
ROOT = 1 / 3
"""The power of what there is to learn from, of a share, with which its own tasks get better."""


class Trainee(Value):
    """What decides success, in logits."""

    skill: float
    harder: dict[str, float]
    """By name of a share: how much harder its tasks are than tasks on average."""
    slopes: dict[str, float]
    """By the part of a knob's name after the dot: how much harder its whole range makes tasks."""
    spread: float
    """Standard deviation of the difficulty of tasks of one kind."""


class Kind(NamedTuple):
    """Tasks that share every label that a share stands for."""

    shares: tuple[Knob, ...]
    """One of each group."""
    share: float

    @property
    def labels(self) -> dict[str, Label]:
        return dict(knob.label for knob in self.shares if knob.label)


def kinds(knobs: Knobs) -> list[Kind]:
    """Every kind of task that the knobs make, with its share."""
    groups = [
        [knobs.space.knobs[name] for name in members if knobs[name] > 0]
        for members in knobs.space.groups.values()
    ]
    return [
        Kind(shares, math.prod(knobs[knob.name] for knob in shares)) for shares in product(*groups)
    ]


def tied(knobs: Knobs, share: Knob) -> tuple[Knob, ...]:
    """The difficulty knobs that shape only the tasks of a share."""
    return owned(knobs.space).get(share.prefix, ())


def free(knobs: Knobs) -> list[Knob]:
    """The difficulty knobs that shape all tasks."""
    owners = {knob.prefix for knob in knobs.space.knobs.values() if knob.group}
    return [
        knob
        for prefix, found in owned(knobs.space).items()
        for knob in found
        if prefix not in owners
    ]


@cache
def owned(space: KnobSpace) -> dict[str, tuple[Knob, ...]]:
    """The difficulty knobs by the part of their names before the dot."""
    found: dict[str, tuple[Knob, ...]] = {}
    for knob in space.knobs.values():
        if knob.harder and not knob.group:
            found[knob.prefix] = (*found.get(knob.prefix, ()), knob)
    return found


def level(knob: Knob, value: float) -> float:
    """Where in its range a value lies, from 0 to 1."""
    return 0.0 if knob.held else (value - knob.low) / (knob.high - knob.low)


def difficulty(trainee: Trainee, knobs: Knobs, share: Knob) -> float:
    """Of the tasks of one share, all its knobs counted."""
    return trainee.harder.get(share.name, 0.0) + slope(trainee, knobs, tied(knobs, share))


def slope(trainee: Trainee, knobs: Knobs, those: Iterable[Knob]) -> float:
    return sum(
        trainee.slopes.get(knob.suffix, 0.0)
        * knob.harder
        * (level(knob, knobs[knob.name]) - level(knob, knob.default))
        for knob in those
    )


def logits(trainee: Trainee, knobs: Knobs, made: list[Kind]) -> Numbers:
    """Of an average task of each kind."""
    own = {
        knob.name: difficulty(trainee, knobs, knob)
        for knob in {knob.name: knob for kind in made for knob in kind.shares}.values()
    }
    everywhere = trainee.skill - slope(trainee, knobs, free(knobs))
    return np.array([everywhere - sum(own[knob.name] for knob in kind.shares) for kind in made])


def chances(trainee: Trainee, means: Numbers) -> Numbers:
    """(kinds, nodes): the chance of success at tasks of every difficulty within a kind."""
    found: Numbers = 1 / (1 + np.exp(-(means[:, None] + trainee.spread * NODES)))
    return found


def signals(trainee: Trainee, means: Numbers) -> Numbers:
    """Mean variance of success within a group of attempts at one task: what can be learned from."""
    chance = chances(trainee, means)
    found: Numbers = (chance * (1 - chance)) @ WEIGHTS
    return found


def signal(trainee: Trainee, knobs: Knobs) -> float:
    """What a training on these knobs offers the trainee to learn from."""
    made = kinds(knobs)
    shares = np.array([kind.share for kind in made])
    return float(shares @ signals(trainee, logits(trainee, knobs, made)))


def tried(
    trainee: Trainee, knobs: Knobs, groups: int, attempts: int, rng: np.random.Generator
) -> list[Cell]:
    """What so many groups of attempts at tasks from the knobs would look like."""
    made = kinds(knobs)
    shares = np.array([kind.share for kind in made])
    counts = rng.multinomial(groups, shares / shares.sum())
    found = []
    for kind, mean, count in zip(made, logits(trainee, knobs, made), counts, strict=True):
        if not count:
            continue
        chance = 1 / (1 + np.exp(-(mean + trainee.spread * rng.standard_normal(count))))
        right = rng.binomial(attempts, chance)
        facts: dict[str, Any] = {}
        if attempts > 1:
            rate = right / attempts
            facts = {
                "groups": int(count),
                "dead": int(((right == 0) | (right == attempts)).sum()),
                "spread": float((rate * (1 - rate)).sum()),
            }
        valid = int(right.sum())
        found.append(
            Cell(labels=kind.labels, n=int(count) * attempts, valid=valid, optimal=valid,
                 reward=float(valid), **facts)
        )  # fmt: skip
    return found


class Learning(NamedTuple):
    """How fast it gets better, for a unit of training."""

    everywhere: float
    """At all tasks, in logits."""
    own: dict[str, float]
    """Beside that at the tasks of a share."""


def learning(trainee: Trainee, knobs: Knobs, target: Knobs | None = None) -> Learning:
    """What a training on these knobs does; less where tasks are not as hard as a target's are."""
    made = kinds(knobs)
    worth = signals(trainee, logits(trainee, knobs, made))
    mass = [
        kind.share * float(value) * (likeness(knobs, target, kind) if target else 1.0)
        for kind, value in zip(made, worth, strict=True)
    ]
    own = {name: own_speed(m) for name, m in by_share(made, mass).items()}
    return Learning(GENERAL * sum(mass), own)


def by_share(made: list[Kind], values: list[float]) -> dict[str, float]:
    """The sum of what kinds have, over those of each share."""
    found: dict[str, float] = {}
    for kind, value in zip(made, values, strict=True):
        for knob in kind.shares:
            found[knob.name] = found.get(knob.name, 0.0) + value
    return found


def own_speed(mass: float) -> float:
    """More of the same counts ever less."""
    return FULL * float((mass / FULL) ** ROOT)


def likeness(knobs: Knobs, target: Knobs, kind: Kind) -> float:
    """How much tasks of a kind are as hard as the target's of that share, from 0 to 1."""
    return math.prod(
        closeness(knob, knobs[knob.name], target)
        for share in kind.shares
        if target[share.name] > 0
        for knob in tied(knobs, share)
    )


def closeness(knob: Knob, value: float, target: Knobs) -> float:
    """How much the tasks of a difficulty knob's value are like those of the target's."""
    return max(0.0, 1 - abs(level(knob, value) - level(knob, target[knob.name])))


def learned(trainee: Trainee, knobs: Knobs, amount: float) -> Trainee:
    """The trainee after a training."""
    speed = learning(trainee, knobs)
    return trainee.model_copy(
        update={
            "skill": trainee.skill + amount * speed.everywhere,
            "harder": {
                name: hard - amount * speed.own.get(name, 0.0)
                for name, hard in trainee.harder.items()
            },
        }
    )


def gain(trainee: Trainee, knobs: Knobs, target: Knobs) -> float:
    """How fast a training on some knobs makes it better at the tasks of others."""
    need, own = needs(trainee, target)
    speed = learning(trainee, knobs, target)
    return need * speed.everywhere + sum(
        wanted * speed.own.get(name, 0.0) for name, wanted in own.items()
    )


def needs(trainee: Trainee, target: Knobs) -> tuple[float, dict[str, float]]:
    """How much a logit more would raise its success at a target: all over, and by share."""
    made = kinds(target)
    steep = signals(trainee, logits(trainee, target, made))
    needed = [kind.share * float(value) for kind, value in zip(made, steep, strict=True)]
    return sum(needed), by_share(made, needed)
