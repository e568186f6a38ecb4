"""Where the time of a run went, and how much of it was orchestration.

Versions of a generation are trained and measured side by side, while the first of their phases is
open: they are one part. Orchestration is all wall time beyond generation, training, evaluation and
engineering: the time between parts, and what remains of a part after the work that it recorded.
Invariant: where a phase cannot be read, all of it counts as orchestration, and the share is called
an upper bound.
"""

from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from coevolve.dashboard.numbers import place_words
from coevolve.dashboard.record import Record
from coevolve.store.events import Event
from coevolve.store.lineage import Lineage

TELLING = ("created", "began", "phase", "asked", "answered", "done", "stopped", "failed")
"""Kinds of events that say what a run was doing; notes do not."""
KINDS = {
    "train": "generate and train", "base": "evaluate", "clean": "evaluate",
    "dev": "evaluate", "gate": "evaluate",
    "noise": "evaluate", "check": "evaluate", "final": "evaluate", "backtest": "probe",
    "propose": "engineer",
}  # fmt: skip
"""What the seconds that a phase records as spent went into."""


class Part(NamedTuple):
    """Phases that did their work together."""

    where: str
    phases: tuple[str, ...]
    seconds: float
    work: dict[str, float]
    """Seconds of work inside them, by kind."""

    @property
    def rest(self) -> float:
        return max(0.0, self.seconds - sum(self.work.values()))


class Timing(NamedTuple):
    """The whole run."""

    parts: tuple[Part, ...]
    kinds: dict[str, float]
    """Seconds of work by kind, over all parts."""
    running_s: float
    """Phases and the time between them."""
    between_s: float
    inside_s: float
    """Of phases, beyond the work measured inside them."""
    waiting_s: float
    """For people."""
    broken_s: float
    """Tries that were broken off, and the time until the run went on."""
    share: float | None
    """Of orchestration in the running time; None where the order of events is lost."""
    bound: bool
    """Whether the share is an upper bound only."""


def timing_of(record: Record) -> Timing:
    timed = [one for one in record.events if one.kind == "phase" and one.seconds is not None]
    together: dict[tuple[str, str], list[Event]] = {}
    for event in timed:
        together.setdefault(part_of(record.lineage, event), []).append(event)
    parts = tuple(part(record, where, events) for (where, _), events in together.items())
    whole = any(event.kind == "began" for event in record.events)
    between, waiting, broken = gaps(record.events) if whole else (0.0, 0.0, 0.0)
    inside = sum(one.rest for one in parts)
    running = sum(one.seconds for one in parts) + between
    kinds = {
        kind: sum(one.work.get(kind, 0.0) for one in parts)
        for kind in dict.fromkeys(kind for one in parts for kind in one.work)
    }
    return Timing(
        parts, kinds, running, between, inside, waiting, broken,
        (between + inside) / running if running and whole else None,
        any(event.number not in record.spent for event in timed),
    )  # fmt: skip


def part_of(lineage: Lineage, event: Event) -> tuple[str, str]:
    """Where a phase belongs: with all of the versions beside it, or else alone; the noise floor is
    trained with the first version."""
    kind, _, number = (event.place or "").partition("/")
    if event.phase == "noise":
        kind, number = "versions", "0"
    if kind != "versions" or not number.isdecimal() or int(number) >= len(lineage.nodes):
        return place_words(event.place), str(event.phase)
    generation = lineage.versions[int(number)].generation
    members = [one.number for one in lineage.versions if one.generation == generation]
    several = len(members) > 1
    return (f"versions {members[0]} to {members[-1]}" if several else f"version {members[0]}"), ""


def part(record: Record, where: str, events: list[Event]) -> Part:
    """Phases with the work inside them, as they recorded it."""
    seconds = sum(float(event.seconds or 0.0) for event in events)
    work: dict[str, float] = {}
    for event in events:
        phase, spent = str(event.phase).partition("-")[0], record.spent.get(event.number)
        if spent and spent.seconds:
            kind = KINDS.get(phase, phase)
            work[kind] = work.get(kind, 0.0) + spent.seconds
    total = sum(work.values())
    if total > seconds:  # done at the same time, or in an earlier try and read back
        work = {kind: value * seconds / total for kind, value in work.items()}
    phases = tuple(dict.fromkeys(str(event.phase) for event in events))
    return Part(where, phases, seconds, work)


def gaps(events: tuple[Event, ...]) -> tuple[float, float, float]:
    """Seconds between phases, waiting for people, and lost by breaking off."""
    between = waiting = broken = 0.0
    told = [event for event in events if event.kind in TELLING]
    for before, after in pairwise(told):
        gap = seconds_between(before.time, after.time)
        if before.kind in ("asked", "answered"):  # what was answered may wait to be resumed
            waiting += gap
        elif before.kind in ("done", "stopped", "failed"):
            broken += gap
        elif before.kind == "began":
            broken += gap if after.kind != "phase" else 0.0
        else:
            between += gap
    return between, waiting, broken


def seconds_between(one: str, other: str) -> float:
    try:
        passed = datetime.fromisoformat(other) - datetime.fromisoformat(one)
    except ValueError:
        return 0.0
    return max(0.0, passed.total_seconds())
