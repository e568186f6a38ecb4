"""Our own rule: small edits towards the frontier of what the policy can do.

Invariant: a share in use never falls below a part of what is equal, so that nothing is forgotten.
"""

import math

from coevolve.engineers.base import View
from coevolve.engineers.signals import (
    Ruling,
    Signal,
    counted,
    difficulty,
    hardened,
    in_shares,
    signals,
)
from coevolve.store.cells import Cell

LOW, HIGH = 0.2, 0.8
"""The learning zone: tasks that succeed more often than LOW and less often than HIGH."""
EASY, HARD = 0.6, 0.4
"""Rates above and below which tasks are made harder and easier."""
ENOUGH = 8
"""Rollouts below which nothing is concluded."""
MAINTENANCE = 0.25
"""What solved tasks keep, as a part of an equal share."""
BACK_OFF = 0.1
"""What dead tasks keep, as a part of an equal share."""
OPENING = 0.5
"""What a newly opened kind of tasks gets, as a part of an equal share."""
STEP = 0.5
"""How far shares go towards where they should be."""
HARDEN = 0.15
"""Part of its range by which a difficulty knob moves."""


def frontier(view: View, seed: int) -> Ruling:
    """Shares go towards tasks in the learning zone, difficulty towards the zone.

    Tasks with more live groups and less certain rates get more; solved tasks keep a maintenance
    share; dead tasks are backed off. Where all of a group is solved its next member opens. After a
    round whose knobs went back the steps are halved, and what had been changed goes the other way.
    """
    scale = 0.5 ** reversals(view)
    knobs: dict[str, float] = {}
    lines = []
    for group, members in view.space.groups.items():
        found = signals(view, group)
        shares, changes = in_shares(found, better_shares(found, STEP * scale))
        knobs |= shares
        lines += changes
        later = members[members.index(found[-1].knob.name) + 1 :]
        if later and all(kind(signal.cell) == "solved" for signal in found):
            knobs[later[0]] = OPENING * scale / (len(found) + 1)
            lines.append(f"{group}: all {len(found)} in use are solved: {later[0]} opens")
    for knob, name, cell in difficulty(view):
        before = view.incumbent[knob.name]
        after = hardened(knob, before, HARDEN * scale * direction(cell))
        if after != before:
            knobs[knob.name] = after
            lines.append(f"{name}: {counted(cell)}: {knob.name} {before:.3g} → {after:.3g}")
    if back := opposite(view):
        knobs |= back
        lines = [f"the change of round {view.last.number} was taken back: the other way by "
                 f"half for {len(back)} knobs, half steps for the rest", *lines]  # fmt: skip
    return knobs, f"{'; '.join(lines) or 'Nothing calls for a change'}."


def kind(cell: Cell) -> str:
    """unknown, solved, dead (hardly any success and no live group) or learning."""
    if cell.n < ENOUGH:
        return "unknown"
    if cell.rate > HIGH:
        return "solved"
    live = cell.groups - cell.dead if cell.groups else cell.valid
    total = cell.groups or cell.n
    return "dead" if cell.rate < LOW and live <= 0.1 * total else "learning"


def direction(cell: Cell) -> int:
    """1 for harder, -1 for easier, 0 to stay."""
    return 0 if cell.n < ENOUGH else (cell.rate > EASY) - (cell.rate < HARD)


def worth(cell: Cell) -> float:
    """How much a task in the zone teaches: its place in the zone, its live groups, its doubt."""
    rate = (cell.valid + 1) / (cell.n + 2)
    place = min(1.0, rate / LOW, (1 - rate) / (1 - HIGH))
    alive = (cell.groups - cell.dead + 1) / (cell.groups + 2) if cell.groups else 1.0
    doubt = math.sqrt(rate * (1 - rate) / (cell.n + 2))
    return place * alive * (1 + 2 * doubt)


def better_shares(found: list[Signal], step: float) -> list[float]:
    """The shares of a group one step nearer to where they should be, summing to one.

    What solved, dead and unknown tasks do not keep goes to those in the zone by their worth; if
    none is there, to the solved ones.
    """
    even = 1 / len(found)
    kinds = [kind(signal.cell) for signal in found]
    gaining = "learning" if "learning" in kinds else "solved"
    worths = [worth(s.cell) if k == gaining else 0.0 for k, s in zip(kinds, found, strict=True)]
    if not sum(worths):
        return [signal.share for signal in found]
    goals = [keeps(k, s.share, even) for k, s in zip(kinds, found, strict=True)]
    left = max(0.0, 1 - sum(goals)) / sum(worths)
    goals = [goal + left * w for goal, w in zip(goals, worths, strict=True)]
    shares = [s.share + step * (goal - s.share) for s, goal in zip(found, goals, strict=True)]
    return [share / sum(shares) for share in shares]


def keeps(kind_of: str, share: float, even: float) -> float:
    """What a share keeps in any case; nothing is piled into dead tasks."""
    if kind_of == "unknown":
        return share
    if kind_of == "dead":
        return min(share, BACK_OFF * even)
    return (MAINTENANCE if kind_of == "solved" else BACK_OFF) * even


def reversals(view: View) -> int:
    """Of how many rounds in a row, up to the last, the knobs went back."""
    kept = [number for number, r in enumerate(view.history) if r.verdict == "kept"]
    return len(view.history) - 1 - (kept[-1] if kept else -1)


def opposite(view: View) -> dict[str, float]:
    """After a round whose knobs went back: its changes the other way round and half as large.

    A share is at most halved, so that one bad round cannot end a kind of task.
    """
    if view.last.verdict == "kept":
        return {}
    tried = view.space.project(view.last.knobs, base=view.incumbent)
    turned = {}
    for name, (before, after) in tried.difference(view.incumbent).items():
        value = before - (after - before) / 2
        turned[name] = max(value, before / 2) if view.space.knobs[name].group else value
    return turned
