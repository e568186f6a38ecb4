"""From a run folder to plain values that templates show: everything about a run, read once.

Pure functions of what is on the disk. Invariant: every rate carries its n, and what could not be
read is in `problems`.
"""

from pathlib import Path
from typing import Any, NamedTuple

from coevolve import __version__
from coevolve.dashboard.boards import Boards, boards_of
from coevolve.dashboard.curves import Curves, curves_of
from coevolve.dashboard.decisions import RoundFacts, round_facts
from coevolve.dashboard.headline import Headline, headline_of
from coevolve.dashboard.levels import Levels, knobs_by_round, levels_of
from coevolve.dashboard.proposals import written
from coevolve.dashboard.record import (
    Record,
    Tried,
    proposers,
    read_record,
    read_rollouts,
    read_rows,
    read_tried,
)
from coevolve.dashboard.timing import Timing, timing_of
from coevolve.ledger.events import Event


class Facts(NamedTuple):
    """A run, ready to be shown."""

    name: str
    folder: str
    state: str
    began: str
    ended: str
    reason: str
    """Why the run ended early, if it did."""
    config: dict[str, Any]
    headline: Headline
    rounds: tuple[RoundFacts, ...]
    curves: Curves
    levels: Levels
    boards: Boards | None
    timing: Timing
    problems: tuple[str, ...]
    version: str = __version__

    @property
    def word(self) -> str:
        """What its versions are called."""
        return "version" if "versions" in self.config else "round"

    @property
    def proposers(self) -> str:
        """Who proposes, by name."""
        return ", ".join(proposers(self.config)) or "unknown"

    def as_json(self) -> dict[str, Any]:
        """The numbers for scripts; texts and pictures stay in the page."""
        head = self.headline
        rates = {"base": head.base, "final": head.final}
        return {
            "run": self.name,
            "state": self.state,
            "answer": head.answer,
            "sentence": head.sentence,
            "policy": head.final_policy,
            **{name: rate.as_json() if rate else None for name, rate in rates.items()},
            "change": head.change.as_json() if head.change else None,
            "test": head.test
            and {
                "first": head.test.first.as_json(),
                "last": head.test.last.as_json(),
                "change": head.test.change.as_json(),
                "tasks": head.test.tasks,
            },
            "rounds": [
                {
                    "number": one.number,
                    "knobs_by": one.author,
                    "dev": one.dev.as_json() if one.dev else None,
                    "gate": one.gate.as_json() if one.gate else None,
                    "verdict": one.verdict.words or None,
                }
                for one in self.rounds
            ],
            "spent": {one.name: one.used for one in head.spent},
            "seconds": self.timing.running_s,
            "work_seconds": self.timing.kinds,
            "orchestration": self.timing.share,
            "orchestration_is_upper_bound": self.timing.bound,
            "problems": list(self.problems),
        }


def facts_of(folder: Path) -> Facts:
    """Read a run folder."""
    record = read_record(folder)
    gates: dict[int | None, list[Tried]] = {None: gate_rollouts(record, None)}
    gates |= {number: gate_rollouts(record, number) for number in record.rounds}
    head = headline_of(record, gates)
    knobs = knobs_by_round(record)
    rounds = tuple(round_facts(record, number, knobs, gates[number]) for number in record.rounds)
    # Read before `problems`, to which they add.
    rest = {
        "curves": curves_of(record),
        "levels": levels_of(record, knobs),
        "boards": boards_of(
            record,
            read_rollouts(record, gate_place(record, None)),
            read_rollouts(record, gate_place(record, head.final_round)),
        )
        if head.final_round is not None
        else None,
        "timing": timing_of(record, drawing(record, gates)),
    }
    times = [event.time for event in record.events]
    last = record.events[-1] if record.events else None
    return Facts(
        name=str(record.config.get("name") or folder.resolve().name),
        folder=str(folder),
        state=record.state,
        began=min(times, default=""),
        ended=max(times, default=""),
        reason=ending(last) if last else "",
        config=record.config,
        headline=head,
        rounds=rounds,
        problems=tuple(record.problems),
        **rest,  # type: ignore[arg-type]
    )


def ending(last: Event) -> str:
    """Why a run ended early, by its last event; empty if it did not."""
    told = last.payload
    if last.kind == "answered" and told.get("decision") == "abort":
        return "a person ended it" + (f": {written(told['note'])}" if told.get("note") else "")
    early = last.kind in ("stopped", "failed")
    return str(told.get("reason") or told.get("error") or "") if early else ""


def gate_place(record: Record, number: int | None) -> Path:
    return record.folder / "base" / "gate" if number is None else record.place(number, "gate")


def gate_rollouts(record: Record, number: int | None) -> list[Tried]:
    """The gate rollouts of a round, or of the base policy."""
    place = gate_place(record, number)
    found = read_tried(record, place)
    phase = record.phase(number or 0, "base" if number is None else "gate")
    if phase and not found:
        record.trouble(f"the gate rollouts are missing: {place.relative_to(record.folder)}")
    return found


def drawing(record: Record, gates: dict[int | None, list[Tried]]) -> dict[tuple[int, str], float]:
    """Seconds spent on drawing answers, by round and phase, as the rollouts have it."""
    found = {(0, "base"): float(sum(one.seconds for one in gates[None]))}
    for number in record.rounds:
        found[number, "gate"] = float(sum(one.seconds for one in gates[number]))
        for phase, name in (("dev", "dev"), ("backtest", "probes")):
            rows = read_rows(record, record.place(number, name), ["seconds"])
            found[number, phase] = float(sum(row["seconds"] for row in rows))
    return found
