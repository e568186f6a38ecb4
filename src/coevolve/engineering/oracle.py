"""The best edits: what an engineer that knows the trainee would do in one step per knob.

Answers that set values may use the trust region better, and gain more than that. Difficulty knobs
are chosen one by one; of the shares of a group, those worth most are raised and those worth least
lowered, and how many of each is tried out.
"""

import numpy as np

from coevolve.domains.knobs import Knob, Knobs
from coevolve.engineering.trainee import (
    Numbers,
    Trainee,
    free,
    kinds,
    level,
    logits,
    signal,
    signals,
    tied,
)
from coevolve.engineers.base import Edit
from coevolve.engineers.reach import span, stepped, with_edits

SMALL = 1e-6
"""Gains below this are none."""


def best_edits(trainee: Trainee, knobs: Knobs, reach: float) -> tuple[Edit, ...]:
    """Edits of the knobs after which the trainee has most to learn from."""
    made = kinds(knobs)
    means = logits(trainee, knobs, made)
    edits: list[Edit] = []
    for share in {knob.name: knob for kind in made for knob in kind.shares}.values():
        own = np.array([kind.share * (share in kind.shares) for kind in made])
        for knob in tied(knobs, share):
            edits += better(trainee, knobs, knob, means, own, reach)
    for knob in free(knobs):
        edits += better(trainee, knobs, knob, means, np.array([k.share for k in made]), reach)
    for group in knobs.space.groups:
        edits += shares(trainee, knobs, group, edits, reach)
    return tuple(edits)


def better(
    trainee: Trainee, knobs: Knobs, knob: Knob, means: Numbers, weights: Numbers, reach: float
) -> list[Edit]:
    """The step of one difficulty knob that helps, if one does."""
    now, value = float(weights @ signals(trainee, means)), knobs[knob.name]
    steep = trainee.slopes.get(knob.suffix, 0.0) * knob.harder
    found = []
    for action, step in (("raise", span(knob, reach)), ("lower", -span(knob, reach))):
        after = min(max(value + step, knob.low), knob.high)
        shift = steep * (level(knob, after) - level(knob, value))
        gain = float(weights @ signals(trainee, means - shift)) - now
        if gain > SMALL:
            found.append((gain, Edit.model_validate({"knob": knob.name, "action": action})))
    return [max(found, key=lambda pair: pair[0])[1]] if found else []


def shares(
    trainee: Trainee, knobs: Knobs, group: str, edits: list[Edit], reach: float
) -> list[Edit]:
    """The steps of a group of shares that help most, given the other edits."""
    after = with_edits(edits, knobs, reach)
    made = kinds(after)
    offered = signals(trainee, logits(trainee, after, made))
    names = [name for name in knobs.space.groups[group] if after[name] > 0]
    worth = {
        name: sum(
            kind.share * float(value)
            for kind, value in zip(made, offered, strict=True)
            if any(knob.name == name for knob in kind.shares)
        )
        / after[name]
        for name in names
    }
    ranked = sorted(names, key=lambda name: worth[name])
    best, found = signal(trainee, after), list[Edit]()
    for lowered in range(len(ranked)):
        for raised in range(len(ranked) - lowered + 1):
            if lowered + raised == 0:
                continue
            tried = [
                *(Edit(knob=name, action="lower") for name in ranked[:lowered]),
                *(Edit(knob=name, action="raise") for name in ranked[len(ranked) - raised :]),
            ]
            value = moved(after, group, tried, worth, reach)
            if value > best + SMALL:
                best, found = value, tried
    return found


def moved(
    knobs: Knobs, group: str, edits: list[Edit], worth: dict[str, float], reach: float
) -> float:
    """What a group's edits make of the signal, without making the knobs: the region only scales
    how much changes hands."""
    before = {name: knobs[name] for name in worth}
    steps = {edit.knob: stepped(edit, knobs.space.knobs[edit.knob], before[edit.knob], reach)
             for edit in edits}  # fmt: skip
    wanted = before | {name: value for name, value in steps.items() if value is not None}
    total = sum(wanted.values())
    wanted = {name: share / total for name, share in wanted.items()}
    handed = sum(abs(wanted[name] - before[name]) for name in before) / 2
    part = min(1.0, reach / handed) if handed > 0 else 0.0
    return sum(
        worth[name] * (before[name] + part * (wanted[name] - before[name])) for name in before
    )
