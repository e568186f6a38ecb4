"""Where the time of a run went, and how much of it was orchestration.

Orchestration is all wall time of a run beyond generation, training and evaluation: the time between
phases, and what remains of a phase after the work that was measured inside it. Invariant: where a
phase did not record its work, all of what is not known counts as orchestration, and the share is
called an upper bound.
"""

from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from coevolve.dashboard.record import Record
from coevolve.ledger.events import Event

TELLING = ("created", "began", "phase", "asked", "answered", "done", "stopped", "failed")
"""Kinds of events that say what a run was doing; notes do not."""
KINDS = {"train": "generate and train", "base": "evaluate", "dev": "evaluate", "gate": "evaluate",
         "backtest": "probe", "propose": "engineer"}  # fmt: skip
"""What the seconds that a phase records as spent went into."""


class PhaseTime(NamedTuple):
    """One phase of one round."""

    round: int
    phase: str
    seconds: float
    work: dict[str, float]
    """Seconds of generation, training, evaluation and engineering inside it, by kind."""
    recorded: bool
    """Whether the phase itself recorded them."""

    @property
    def rest(self) -> float:
        return max(0.0, self.seconds - sum(self.work.values()))


class Timing(NamedTuple):
    """The whole run."""

    phases: tuple[PhaseTime, ...]
    kinds: dict[str, float]
    """Seconds of work by kind, over all phases."""
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


def timing_of(record: Record, drawn: dict[tuple[int, str], float]) -> Timing:
    """`drawn`: seconds of drawing by round and phase, from the rollouts themselves."""
    phases = tuple(
        phase_time(event, drawn.get((event.round or 0, event.phase or ""), 0.0))
        for event in record.events
        if event.kind == "phase" and event.seconds is not None
    )
    whole = any(event.kind == "began" for event in record.events)
    between, waiting, broken = gaps(record.events) if whole else (0.0, 0.0, 0.0)
    inside = sum(phase.rest for phase in phases)
    running = sum(phase.seconds for phase in phases) + between
    kinds: dict[str, float] = {}
    for phase in phases:
        for kind, seconds in phase.work.items():
            kinds[kind] = kinds.get(kind, 0.0) + seconds
    return Timing(
        phases, kinds, running, between, inside, waiting, broken,
        (between + inside) / running if running and whole else None,
        not all(phase.recorded for phase in phases),
    )  # fmt: skip


def phase_time(event: Event, drawn: float) -> PhaseTime:
    """A phase with the work inside it: as recorded (`spent`), or as far as its rollouts tell."""
    seconds, phase = float(event.seconds or 0.0), str(event.phase)
    spent = event.payload.get("spent")
    if recorded := isinstance(spent, dict) and "seconds" in spent:
        kind = next((kind for name, kind in KINDS.items() if phase.startswith(name)), phase)
        work = {kind: float(spent["seconds"])}
    else:
        work = {"draw": drawn} if drawn else {}
    total = sum(work.values())
    if total > seconds:  # part of it was done in an earlier try and read back
        work = {kind: value * seconds / total for kind, value in work.items()}
    return PhaseTime(event.round or 0, event.phase or "", seconds, work, recorded)


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
