"""What an event is, and what the events of a run add up to.

Invariant: where a run stands is read off its events alone, so it is never out of step with them.
"""

from pathlib import Path
from typing import Any, Literal

from coevolve.core.rollout import Value
from coevolve.ledger.database import Database
from coevolve.ledger.payload import decode, pretty

State = Literal["new", "running", "waiting", "done", "stopped", "failed"]
STATES: dict[str, State] = {
    "created": "new", "began": "running", "phase": "running", "asked": "waiting",
    "answered": "running", "done": "done", "stopped": "stopped", "failed": "failed",
}  # fmt: skip
"""Where a run stands after an event; other kinds of events change nothing."""
NO_NOTES = ("created", "began", "phase", "asked", "answered")
"""Kinds that only what gives them their meaning may record."""


class Event(Value):
    """One thing that happened in a run."""

    number: int
    """1, 2, 3 in the order of the record."""
    time: str
    """When it was recorded, UTC, ISO 8601; of a phase, when it ended."""
    kind: str
    round: int | None
    phase: str | None
    started: str | None
    """When a phase was begun, UTC, ISO 8601."""
    seconds: float | None
    """How long a phase took."""
    payload: dict[str, Any]


def state(database: Database) -> State:
    """Where the run stands, by the last event that says so."""
    places = ", ".join("?" * len(STATES))
    row = database.read(
        f"SELECT kind, payload FROM events WHERE kind IN ({places}) ORDER BY number DESC LIMIT 1",
        *STATES,
    )[0]
    if row["kind"] == "answered" and decode(row["payload"]).get("decision") == "abort":
        return "stopped"
    return STATES[row["kind"]]


def place(database: Database) -> tuple[int | None, str | None]:
    """The round the run is in, and the phase, if one was begun and has no result."""
    steps = "SELECT kind, round, phase FROM events WHERE kind IN ('began', 'phase') "
    rows = database.read(steps + "ORDER BY number DESC LIMIT 1")
    if rows and (rows[0]["kind"], rows[0]["phase"]) == ("phase", "final"):
        # The test split is of no round: once it is measured, the run stands where it stood.
        rows = database.read(steps + "AND phase <> 'final' ORDER BY number DESC LIMIT 1")
    if not rows:
        return None, None
    return rows[0]["round"], rows[0]["phase"] if rows[0]["kind"] == "began" else None


def summary(database: Database) -> dict[str, Any]:
    """The run in a few numbers, however long it is."""
    round, phase = place(database)
    seconds = database.read(
        "SELECT phase, sum(seconds), count(*) FROM events WHERE kind = 'phase' "
        "GROUP BY phase ORDER BY min(number)"
    )
    counts = database.read("SELECT kind, count(*) FROM events GROUP BY kind ORDER BY min(number)")
    times = database.read("SELECT min(time), max(time) FROM events")[0]
    return {
        "state": state(database),
        "round": round,
        "phase": phase,
        "seconds": {name: total for name, total, _ in seconds},
        "phases": {name: n for name, _, n in seconds},
        "counts": dict(tuple(row) for row in counts),
        "first": times[0],
        "last": times[1],
    }


def copies(database: Database, rounds: Path, once: str | None = None) -> dict[Path, bytes]:
    """The file for people of each recorded phase, or of one."""
    rows = database.read(
        "SELECT * FROM events WHERE kind = 'phase' AND (once = ? OR ? IS NULL)", once, once
    )
    found = {}
    for row in rows:
        value = {name: row[name] for name in ("number", "round", "phase", "started")}
        value |= {"ended": row["time"], "seconds": row["seconds"]}
        if row["file"]:
            value["payload_file"] = f"files/{row['file']}.json"
        value["payload"] = decode(row["payload"])
        found[rounds / f"{row['round']:02d}" / f"{row['phase']}.json"] = pretty(value)
    return found
