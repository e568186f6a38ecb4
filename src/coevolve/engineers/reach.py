"""From proposed values to knobs: applied, kept within a trust region, and valid.

Invariant: whatever is proposed, the result is valid, and no further from the incumbent than
the region allows.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coevolve.core.errors import UserError
from coevolve.core.task import Label
from coevolve.domains.knobs import Knob, Knobs, KnobSpace
from coevolve.engineers.base import Edit
from coevolve.store.cells import Cell, pooled

TOLERANCE = 1e-9
STEP = 0.3
"""A step is at most this part of a range, however far knobs may move by other means."""
LEAST = 0.1
"""Part of a group of shares, or of a knob's range, below which a change is not worth a trial."""
RARE = 0.25
"""Part of an even share below which a kind is hardly trained on."""


def widened(reach: float, cells: Iterable[Cell]) -> float:
    """How far knobs may move after a training with these results: the further, the more of its
    groups had nothing to teach, being solved or dead. Where all had, it is the plan's `reach`."""
    whole = pooled(cells)
    return reach + (1 - reach) * whole.dead / max(whole.groups, 1)


def evenly(knobs: Knobs, seen: Iterable[Mapping[str, Label]]) -> Knobs | None:
    """The same knobs with even shares for kinds that are hardly trained on; None if there are none.

    Kinds are looked at from the first to the last that is in use, now or by default, or carried by
    a task that was `seen`, and one beyond."""
    space, labels, found = knobs.space, list(seen), dict[str, float]()
    for members in space.groups.values():
        own = [space.knobs[name] for name in members]
        if all(knob.held for knob in own):
            continue
        used = [
            place for place, knob in enumerate(own)
            if knobs[knob.name] > 0 or knob.default > 0
            or (knob.label and any(one.get(knob.label[0]) == knob.label[1] for one in labels))
        ]  # fmt: skip
        near = own[used[0] : used[-1] + 2]
        rare = [knob.name for knob in near if knobs[knob.name] < RARE / len(near)]
        if rare:
            found |= dict.fromkeys(members, 0.0) | dict.fromkeys(rare, 1 / len(rare))
    return space.project(found, base=knobs) if found else None


def apply(values: Mapping[str, Any], incumbent: Knobs, reach: float) -> Knobs:
    """The knobs that proposed values come to, at most `reach` away from the incumbent.

    The region: a plain knob moves by at most `reach` of its range, a whole number by at least one
    unit; of a group of shares at most `reach` changes hands (its total variation), all of them in
    proportion. A change that would drag other knobs out of the region, because the two cannot
    exist together, is left out.
    """
    if not 0 < reach <= 1:
        raise UserError(f"reach = {reach!r} is not a number above 0 and up to 1; 0.2 is usual")
    space = incumbent.space
    # An incumbent that was never projected may need mending itself; the region is around that.
    centre = space.project({}, base=incumbent)
    # Clipped and scaled, but not mended: what cannot exist so far out may exist in the region.
    wanted = KnobSpace(tuple(space.knobs.values())).project(values, centre)
    result = nearest(centre, limited(centre, wanted, reach), reach)
    return result if result.difference(centre) else incumbent


def edited(edits: Sequence[Edit], incumbent: Knobs, reach: float) -> dict[str, float]:
    """The values after all edits, one after the other; shares that were set stay as set, and the
    others of their group fill up what remains."""
    space = incumbent.space
    base = space.project({}, base=incumbent)
    values: dict[str, float] = {}
    fixed: set[str] = set()
    for edit in edits:
        knob = space.knobs.get(edit.knob)
        value = stepped(edit, knob, values.get(edit.knob, base[edit.knob]), reach) if knob else None
        if knob is None or value is None or not math.isfinite(value):
            continue
        values[knob.name] = min(max(value, knob.low), knob.high)
        fixed = fixed | {knob.name} if edit.action == "set" else fixed - {knob.name}
    for members in space.groups.values():
        taken = math.fsum(values[name] for name in members if name in fixed)
        others = {name: values.get(name, base[name]) for name in members if name not in fixed}
        if fixed.intersection(members) and taken < 1 and (total := math.fsum(others.values())) > 0:
            values.update({name: v * (1 - taken) / total for name, v in others.items()})
    return values


def stepped(edit: Edit, knob: Knob, value: float, reach: float) -> float | None:
    """What one edit makes of a value: a step is a part of the range, or a factor for a share."""
    if edit.action == "set":
        return edit.value
    up, part = edit.action == "raise", min(reach, STEP)
    if knob.group:
        return raised(value, part) if up else value / factor_of(part)
    return step(knob, value, up, reach)


def step(knob: Knob, value: float, up: bool, reach: float) -> float:
    """A plain knob one step further, perhaps out of its range."""
    size = span(knob, min(reach, STEP))
    return value + size if up else value - size


def raised(share: float, reach: float) -> float:
    """A share one step up; one that is closed, or tiny, becomes half of what may change hands."""
    return max(share * factor_of(reach), reach / 2)


def factor_of(reach: float) -> float:
    """By how much a share grows or shrinks in one step."""
    return 1 + 2 * reach


def span(knob: Knob, reach: float) -> float:
    """How far a plain knob may move."""
    if knob.held:
        return 0.0
    distance = reach * (knob.high - knob.low)
    return float(max(1, math.floor(distance))) if knob.integer else distance


def limited(centre: Knobs, wanted: Knobs, reach: float) -> dict[str, float]:
    """The values cut back to the region, not yet mended."""
    values: dict[str, float] = {}
    for name, knob in centre.space.knobs.items():
        if not knob.group:
            most = span(knob, reach)
            values[name] = min(max(wanted[name], centre[name] - most), centre[name] + most)
    for members in centre.space.groups.values():
        change = variation(members, centre, wanted)
        part = min(1.0, reach / change) if change > 0 else 0.0
        for name in members:
            values[name] = centre[name] + part * (wanted[name] - centre[name])
    return values


def variation(members: list[str], before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """How much of a group of shares changes hands."""
    return math.fsum(abs(after[name] - before[name]) for name in members) / 2


def worth_a_trial(before: Knobs, after: Knobs) -> bool:
    """Whether any group of shares, or other knob in use, goes far enough to be told from noise."""
    groups = (variation(members, before, after) for members in before.space.groups.values())
    plain = (
        abs(after[knob.name] - before[knob.name]) / (knob.high - knob.low)
        for knob in after.in_use()
        if not knob.group and not knob.held
    )
    return any(moved >= LEAST for moved in (*groups, *plain))


def within(knobs: Knobs, centre: Knobs, reach: float) -> bool:
    """Whether knobs are in the region around a centre."""
    plain = all(
        abs(knobs[name] - centre[name]) <= span(knob, reach) + TOLERANCE
        for name, knob in centre.space.knobs.items()
        if not knob.group
    )
    return plain and all(
        variation(members, centre, knobs)
        <= (0.0 if centre.space.knobs[members[0]].held else reach) + TOLERANCE
        for members in centre.space.groups.values()
    )


def nearest(centre: Knobs, values: dict[str, float], reach: float) -> Knobs:
    """Valid knobs within the region: all values if they can exist there together, else as many as
    can, taken knob by knob and group by group."""
    space = centre.space
    together = space.project(values, centre)
    if within(together, centre, reach):
        return together
    units = [[name] for name, knob in space.knobs.items() if not knob.group]
    kept = centre
    for unit in [*space.groups.values(), *units]:
        if any(abs(values[name] - kept[name]) > TOLERANCE for name in unit):
            tried = space.project({name: values[name] for name in unit}, kept)
            kept = tried if within(tried, centre, reach) else kept
    return kept
