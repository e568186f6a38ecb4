"""Our own rule: train on what the target is made of, as far as anything can be learned there.

Where a kind of the target is dead, its share goes to the nearest kind that is not, so that the way
leads from kind to kind. Invariant: no share goes to tasks that nothing can be learned from, unless
nothing else is known.
"""

from coevolve.engineers.base import View
from coevolve.engineers.baselines import learnability
from coevolve.engineers.reach import worth_a_trial
from coevolve.engineers.signals import Ruling, Signal, counted, signals, standing
from coevolve.store.cells import pooled

DEAD = 0.02
"""Rate of valid answers below which tasks teach nothing yet."""
ENOUGH = 16
"""Rollouts below which nothing is concluded, and tasks of which a statistic is not taken over."""
EVEN = 0.2
"""Part of each group that goes by learnability, over all kinds that are known."""


def aim(view: View, seed: int) -> Ruling:
    """Shares as in the target, without its dead kinds, and a part by learnability."""
    taught, words = learnability(view, seed)
    if not view.target:
        return taught, words
    knobs, lines = dict(taught), list[str]()
    for group in view.space.groups:
        found = signals(view, group, closed=True)
        shares = wanted(view, found)
        if not sum(shares.values()):
            continue
        for one in found:
            name = one.knob.name
            knobs[name] = EVEN * taught.get(name, 0.0) + (1 - EVEN) * shares[name]
            if len(found) > 1 and abs(knobs[name] - one.share) > 5e-4:
                cell = counted(one.cell)
                lines.append(f"{one.name} ({cell}): {one.share:.3g} → {knobs[name]:.3g}")
    for name, found_value in view.target.items():
        knob = view.space.knobs.get(name)
        if knob and not knob.group and knob.shown and found_value.n >= ENOUGH:
            knobs[name] = min(max(found_value.value, knob.low), knob.high)
    after = view.space.project(knobs, base=view.incumbent)
    if not worth_a_trial(view.incumbent, after):
        return {}, "The tasks are those of the target already, where it is alive."
    return knobs, f"Shares of the target, where it is alive: {'; '.join(lines) or 'no change'}."


def wanted(view: View, found: list[Signal]) -> dict[str, float]:
    """The target's shares of a group; those of dead kinds go to the nearest that lives, the easier
    one of two."""
    shares = dict.fromkeys((one.knob.name for one in found), 0.0)
    living = [place for place, one in enumerate(found) if lives(view, one)]
    for place, one in enumerate(found):
        known = view.target.get(one.knob.name)
        if known and living:
            nearest = min(living, key=lambda at: (abs(at - place), -rate(view, found[at])))
            shares[found[nearest].knob.name] += known.value
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()} if total else shares


def lives(view: View, one: Signal) -> bool:
    """Whether anything can be learned from its tasks, as far as is known."""
    return one.cell.n < ENOUGH or rate(view, one) >= DEAD


def rate(view: View, one: Signal) -> float:
    """Of valid answers, now: on dev where it is there, or else when it was last tried."""
    dev = pooled(standing(view).dev, one.knob.label)
    return dev.rate if dev.n >= ENOUGH else one.cell.rate
