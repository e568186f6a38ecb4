"""The situation of a version: what its diagnostics say, how they moved, and what is alarming.

Invariant: it follows from recorded readings alone, and a reading on too small an n is not known.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple

from coevolve.harness.diagnostic import Alarm, Finding
from coevolve.harness.trigger import NUMBERS
from coevolve.harness.version import Version


class Situation(NamedTuple):
    """What triggers are asked of."""

    values: dict[str, float]
    """Readings by name, `NAME.change`, `NAME.rises` and `NAME.falls` where they are known, and the
    numbers of the version's recipe as `recipe.NAME`."""
    alarms: tuple[Alarm, ...] = ()
    """Of the version, critical before warn."""


def situation_of(
    findings: Iterable[Finding], versions: Sequence[Version], number: int
) -> Situation:
    """The situation of a version, by the line that it grew from."""
    line = ancestry(versions, number)
    values = {
        f"recipe.{name}": float(getattr(one.harness.recipe, name))
        for one in versions
        if one.number == number
        for name in NUMBERS
    }
    alarms: list[Alarm] = []
    for finding in findings:
        known = {r.version: r for r in finding.readings if r.n >= finding.diagnostic.least}
        if number not in known:
            continue
        name, reading = finding.diagnostic.name, known[number]
        values[name] = reading.value
        if alarm := finding.diagnostic.alarm(reading):
            alarms.append(alarm)
        values |= trends(name, [known[v].value if v in known else None for v in line])
    alarms.sort(key=lambda alarm: (alarm.level != "critical", -excess(alarm), alarm.diagnostic))
    return Situation(values, tuple(alarms))


def ancestry(versions: Iterable[Version], number: int) -> list[int]:
    """The versions from the root to this one."""
    parents: Mapping[int, int | None] = {one.number: one.parent for one in versions}
    line = [number]
    while (parent := parents.get(line[-1])) is not None:
        line.append(parent)
    return line[::-1]


def trends(name: str, readings: list[float | None]) -> dict[str, float]:
    """How the readings of a line moved up to its last one, as far back as they are known."""
    recent: list[float] = []
    for value in reversed(readings):
        if value is None:
            break
        recent.append(value)
    if len(recent) < 2:
        return {}
    steps = [later - earlier for later, earlier in pairwise(recent)]
    return {
        f"{name}.change": steps[0],
        f"{name}.rises": float(len(list(takewhile(lambda step: step > 0, steps)))),
        f"{name}.falls": float(len(list(takewhile(lambda step: step < 0, steps)))),
    }


def excess(alarm: Alarm) -> float:
    """How far beyond its threshold a reading is, in proportion."""
    return abs(alarm.value - alarm.threshold) / max(abs(alarm.threshold), 1e-9)
