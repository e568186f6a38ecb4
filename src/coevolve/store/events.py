"""What an event is, and what the events of a run add up to.

Invariant: where a run stands is read off its events alone, so it is never out of step with them.
"""

import re
import sqlite3
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from coevolve.core.errors import LedgerError
from coevolve.core.files import read_regular
from coevolve.core.rollout import Value
from coevolve.store.chain import name_of
from coevolve.store.database import Database
from coevolve.store.payload import decode, pretty

State = Literal["new", "running", "waiting", "done", "stopped", "failed", "broken"]
STATES: dict[str, State] = {
    "created": "new", "began": "running", "phase": "running", "asked": "waiting",
    "answered": "running", "done": "done", "stopped": "stopped", "failed": "failed",
}  # fmt: skip
"""Where a run stands after an event; other kinds of events change nothing."""
NO_NOTES = ("created", "began", "phase", "asked", "answered", "sealed")
"""Kinds that only what gives them their meaning may record."""
PLACE = re.compile(r"(?!(?:files|lock)\b)[a-z]+(/[0-9]{2,})?")
"""A folder of a run in which phases lie; `files` and `lock` are the ledger's own."""
PHASE_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")


class Event(Value):
    """One thing that happened in a run."""

    number: int
    """1, 2, 3 in the order of the record."""
    time: str
    """When it was recorded, UTC, ISO 8601; of a phase, when it ended."""
    kind: str
    place: str | None
    """The folder of the run that it is about, such as run, versions/03 or generations/02."""
    phase: str | None
    started: str | None
    """When a phase was begun, UTC, ISO 8601."""
    seconds: float | None
    """How long a phase took."""
    payload: dict[str, Any]


def event_of(row: sqlite3.Row, payload: dict[str, Any], file: Path) -> Event:
    values = {name: row[name] for name in Event.model_fields if name != "payload"}
    try:
        return Event(**values, payload=payload)
    except ValidationError as error:
        problem = error.errors()[0]
        raise LedgerError(
            f"{where(row, file)}: {problem['loc'][0]} is {problem['input']!r:.80} "
            f"({problem['msg']}); put back a copy of the file"
        ) from None


def payload_of(row: sqlite3.Row, file: Path) -> dict[str, Any]:
    """The payload of an event, or its small members if a file holds the whole."""
    return decode(row["payload"], f"the payload of {where(row, file)}")


def large_payload(row: sqlite3.Row, path: Path, file: Path) -> dict[str, Any]:
    """The payload of an event that lies in a file, if that still is what was recorded."""
    what = f"the payload of {where(row, file)}"
    try:
        data = read_regular(path)
    except OSError as error:
        raise LedgerError(f"cannot read {path}, {what}: {error.strerror}; put it back") from error
    if sha256(data).hexdigest() != row["file"]:
        raise LedgerError(
            f"{path}, {what}, was changed after it was recorded; put back a copy of it"
        )
    return decode(data, f"{path}, {what},")


def where(row: sqlite3.Row, file: Path) -> str:
    return f"event {row['number']} ({name_of(row)}) of {file}"


def refuse_place(place: object, phase: object = "any") -> None:
    """Raise an error if a phase of this name cannot lie in a place of this name."""
    good = isinstance(place, str) and PLACE.fullmatch(place)
    if not (good and isinstance(phase, str) and PHASE_NAME.fullmatch(phase)):
        raise LedgerError(
            f"place {place!r}, phase {phase!r}: a place is named like run or versions/03, but not "
            "files or lock, and a phase by up to 64 lower-case letters, digits, - and _"
        )


def state(database: Database) -> State:
    """Where the run stands, by the last event that says so, if that one can be trusted."""
    if database.fault() is not None and database.broken:
        return "broken"
    marks = ", ".join("?" * len(STATES))
    row = database.read(
        f"SELECT * FROM trusted WHERE kind IN ({marks}) ORDER BY number DESC LIMIT 1",
        *STATES,
    )[0]
    if row["kind"] == "answered" and payload_of(row, database.file).get("decision") == "abort":
        return "stopped"
    return STATES[row["kind"]]


def place(database: Database) -> tuple[str | None, str | None]:
    """The place the run is in, and the phase, if one was begun and has no result."""
    steps = "SELECT kind, place, phase FROM trusted WHERE kind IN ('began', 'phase') "
    rows = database.read(steps + "ORDER BY number DESC LIMIT 1")
    if rows and (rows[0]["kind"], rows[0]["phase"]) == ("phase", "final"):
        # The test split is no step of a run: once it is measured, the run stands where it stood.
        rows = database.read(steps + "AND phase <> 'final' ORDER BY number DESC LIMIT 1")
    if not rows:
        return None, None
    return rows[0]["place"], rows[0]["phase"] if rows[0]["kind"] == "began" else None


def summary(database: Database) -> dict[str, Any]:
    """The run in a few numbers, however long it is."""
    where, phase = place(database)
    seconds = database.read(
        "SELECT phase, sum(seconds), count(*) FROM trusted WHERE kind = 'phase' "
        "GROUP BY phase ORDER BY min(number)"
    )
    counts = database.read("SELECT kind, count(*) FROM trusted GROUP BY kind ORDER BY min(number)")
    times = database.read("SELECT min(time), max(time) FROM trusted")[0]
    return {
        "state": state(database),
        "place": where,
        "phase": phase,
        "seconds": {name: total for name, total, _ in seconds},
        "phases": {name: n for name, _, n in seconds},
        "counts": dict(tuple(row) for row in counts),
        "first": times[0],
        "last": times[1],
    }


def copies(database: Database, folder: Path, once: str | None = None) -> dict[Path, bytes]:
    """The file for people of each recorded phase, or of one."""
    rows = database.read(
        "SELECT * FROM trusted WHERE kind = 'phase' AND (once = ? OR ? IS NULL) ORDER BY number",
        once, once,
    )  # fmt: skip
    found = {}
    for row in rows:
        refuse_place(row["place"], row["phase"])
        value = {name: row[name] for name in ("number", "place", "phase", "started")}
        value |= {"ended": row["time"], "seconds": row["seconds"]}
        if row["file"]:
            value["payload_file"] = f"files/{row['file']}.json"
        value["payload"] = payload_of(row, database.file)
        found[folder / row["place"] / f"{row['phase']}.json"] = pretty(value)
    return found
