"""The knobs of every round: what was in force, what changed, and who changed it."""

from itertools import pairwise
from typing import NamedTuple

from coevolve.dashboard.headline import keeps
from coevolve.dashboard.record import Record
from coevolve.domains.knobs import Knob, Knobs
from coevolve.evolution.deciding import first_knobs

SAME = 1e-9


class Level(NamedTuple):
    """One knob over the rounds."""

    name: str
    short: str
    """Its name within the family."""
    meaning: str
    values: list[float]
    changed: list[bool]
    """Whether it is another than in the round before."""


class Family(NamedTuple):
    """Knobs that belong together, on one scale."""

    title: str
    low: float
    high: float
    unit: str
    levels: tuple[Level, ...]


class Levels(NamedTuple):
    families: tuple[Family, ...]
    rounds: list[int]
    """The rounds that the values are of; the last may not have been trained yet."""
    still: tuple[str, ...]
    """Other knobs in use that never changed, with their values."""


def knobs_by_round(record: Record) -> list[Knobs]:
    """What each round trained on, and the next will, as far as it was decided."""
    experiment, domain = record.experiment, record.domain
    if experiment is None or domain is None:
        return []
    if record.tree:
        harnesses = [record.payload(number, "patch").get("harness") for number in record.rounds]
        return [domain.space.project((one or {}).get("knobs") or {}) for one in harnesses]
    found = [first_knobs(experiment, domain.space)]
    for number in record.rounds:
        chosen = record.payload(number, "backtest").get("knobs")
        if not isinstance(chosen, dict):
            break
        found.append(domain.space.project(chosen))
    return found


def incumbent_after(record: Record, knobs: list[Knobs], number: int) -> Knobs:
    """What stood when a round's engineers were asked: after a revert, the last that was kept."""
    kept = [past for past in range(min(number + 1, len(knobs))) if lasting(record, past)]
    reverted = lasting(record, number) is False
    return knobs[kept[-1]] if reverted and kept else knobs[min(number, len(knobs) - 1)]


def lasting(record: Record, number: int) -> bool | None:
    """Whether the knobs of a round stay in force; None where it was not judged."""
    gate = record.payload(number, "gate")
    return keeps(gate) and not gate.get("stopped")


def levels_of(record: Record, knobs: list[Knobs]) -> Levels:
    """Shares and difficulty in use as small multiples; all else only where it changed."""
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
        if not (knob.group or knob.harder or any(changes(values))):
            still.append(f"{knob.name} = {values[0]:.4g}")
            continue
        title = knob.group or (knob.suffix if knob.prefix in owners else "others")
        # What belongs to no family shares a scale only with what is counted in the same unit.
        families.setdefault((title, knob.unit if title == "others" else ""), []).append(knob)
    found = tuple(family(title, members, knobs) for (title, _), members in families.items())
    return Levels(found, list(range(len(knobs))), tuple(still))


def family(title: str, members: list[Knob], knobs: list[Knobs]) -> Family:
    """Knobs on the scale of their range; shares from 0 to the greatest of them."""
    shares = bool(members[0].group)
    levels = tuple(level(knob, knobs, title) for knob in members)
    greatest = max(value for one in levels for value in one.values)
    low = 0.0 if shares else min(knob.low for knob in members)
    high = greatest if shares else max(knob.high for knob in members)
    named = f"{title.replace('_', ' ')}: shares" if shares else title.replace("_", " ")
    return Family(named, low, max(high, low + SAME), members[0].unit, levels)


def level(knob: Knob, knobs: list[Knobs], title: str) -> Level:
    values = [one[knob.name] for one in knobs]
    short = knob.name if title == "others" else knob.prefix
    return Level(knob.name, short, knob.moves, values, changes(values))


def changes(values: list[float]) -> list[bool]:
    """Which values are other than the one before."""
    return [False, *(abs(after - before) > SAME for before, after in pairwise(values))]
