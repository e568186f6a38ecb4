"""The knobs of every version: what each trained on, and what is other than in its parent."""

from collections.abc import Sequence
from typing import NamedTuple

from coevolve.dashboard.numbers import setting
from coevolve.dashboard.record import Record
from coevolve.domains.knobs import Knob, Knobs
from coevolve.harness.harness import Harness
from coevolve.harness.version import Version
from coevolve.store.lineage import Lineage

SAME = 1e-9


class Level(NamedTuple):
    """One knob over the versions."""

    name: str
    short: str
    """Its name within the family."""
    meaning: str
    values: list[float]
    changed: list[bool]
    """Whether it is another than in the parent."""

    @property
    def trail(self) -> list[float]:
        """Its first value, and every one that it was changed to."""
        return [
            self.values[0],
            *(v for v, new in zip(self.values, self.changed, strict=True) if new),
        ]


class Family(NamedTuple):
    """Knobs that belong together, on one scale."""

    title: str
    low: float
    high: float
    unit: str
    levels: tuple[Level, ...]


class Levels(NamedTuple):
    families: tuple[Family, ...]
    versions: list[int]
    """The versions that the values are of; the last may not have been trained yet."""
    still: tuple[str, ...]
    """Other knobs in use that never changed, with their values."""


def knobs_of(record: Record) -> list[Knobs]:
    """What each version trains on; nothing where the domain is not known."""
    if record.domain is None:
        return []
    space = record.domain.space
    return [space.project(one.harness.knobs) for one in record.lineage.versions]


def harness_before(lineage: Lineage, parent: int | None) -> Harness | None:
    """What a patch of a parent is a patch of; of the first policy, what the run begins with."""
    number = parent or 0
    return lineage.versions[number].harness if number < len(lineage.nodes) else None


def levels_of(record: Record) -> Levels:
    """Shares and difficulty in use as small multiples; all else only where it changed."""
    knobs, versions = knobs_of(record), record.lineage.versions
    if not knobs:
        return Levels((), [], ())
    space = knobs[0].space
    used = {knob.name for values in knobs for knob in values.in_use()}
    owners = {knob.prefix for knob in space.knobs.values() if knob.group}
    families: dict[tuple[str, str], list[Knob]] = {}
    still = []
    for knob in space.knobs.values():
        if knob.name not in used:
            continue
        values = [one[knob.name] for one in knobs]
        if not (knob.group or knob.harder or any(changes(values, versions))):
            still.append(f"{knob.name} = {setting(values[0], knob.unit)}")
            continue
        title = knob.group or (knob.suffix if knob.prefix in owners else "others")
        # What belongs to no family shares a scale only with what is counted in the same unit.
        families.setdefault((title, knob.unit if title == "others" else ""), []).append(knob)
    found = tuple(
        family(title, members, knobs, versions) for (title, _), members in families.items()
    )
    return Levels(found, [one.number for one in versions], tuple(still))


def family(
    title: str, members: list[Knob], knobs: list[Knobs], versions: Sequence[Version]
) -> Family:
    """Knobs on the scale of their range; shares from 0 to the greatest of them."""
    shares = bool(members[0].group)
    levels = []
    for knob in members:
        values = [one[knob.name] for one in knobs]
        short = knob.name if title == "others" else knob.prefix
        levels.append(Level(knob.name, short, knob.moves, values, changes(values, versions)))
    greatest = max(value for one in levels for value in one.values)
    low = 0.0 if shares else min(knob.low for knob in members)
    high = greatest if shares else max(knob.high for knob in members)
    named = f"{title.replace('_', ' ')}: shares" if shares else title.replace("_", " ")
    return Family(named, low, max(high, low + SAME), members[0].unit, tuple(levels))


def changes(values: Sequence[float], versions: Sequence[Version]) -> list[bool]:
    """Which values are other than the parent's; the first policy has those of the first version."""
    return [
        abs(value - values[one.parent or 0]) > SAME
        for value, one in zip(values, versions, strict=True)
    ]
