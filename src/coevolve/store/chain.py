"""The chain of hashes that runs through the events of a ledger.

Invariant: each event carries the hash of itself and of the chain before it, so none of them can be
changed, removed or moved unseen, but for the last ones being cut off. What comes after a fault is
never trusted.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

COLUMNS = (
    "number", "time", "kind", "place", "phase", "started", "seconds", "payload", "file", "once",
)  # fmt: skip
"""What the hash of an event is made of: all of it but the hash itself."""
LOWEST = -(2**63)
"""No event of an SQLite file can have a lower number."""


def link(before: str, values: Mapping[str, Any] | sqlite3.Row) -> str:
    """The chain of an event, from that of the one before it, which is empty for the first."""
    text = json.dumps(
        {name: values[name] for name in COLUMNS},
        sort_keys=True, separators=(",", ":"), default=lambda value: {"bytes": value.hex()},
    )  # fmt: skip
    return sha256(f"{before}{text}".encode("ascii")).hexdigest()


class Chain:
    """How far the events of a file were followed, and where they stop being what was recorded."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.number = 0
        """Of the last event that is as it was recorded."""
        self.end = ""
        """The chain of that event."""
        self.fault: str | None = None
        """What is wrong with the first event that is not."""
        self.faulty: int | None = None
        """The number of that event."""
        self._before = ""
        """The chain of the event before `number`."""

    @property
    def start(self) -> int:
        """The number from which on `follow` wants events: once more the last that it knows."""
        return self.number or LOWEST

    def follow(self, rows: Iterable[sqlite3.Row]) -> None:
        """Follow all events from `start` on, up to the first that does not belong there."""
        known, before = self.number, self._before
        first = here = max(known, 1)
        for row in rows:
            number, found = row["number"], link(before, row)
            if number < here:
                return self.stop(number, here, f"event {number} of {self.file} was put in later")
            if number > here:
                return self.stop(here, here, f"event {here} of {self.file} is missing")
            if found != row["chain"] or (number == known and found != self.end):
                what = (
                    f"event {here} ({name_of(row)}) of {self.file} is not what was recorded: it, "
                    "or one before it, was changed or removed"
                )
                return self.stop(here, here, what)
            self._before, self.number, self.end = before, number, found
            before, here = found, number + 1
        if here == first:
            self.stop(here, here, f"event {here} of {self.file} is missing")
        return None

    def stop(self, faulty: int, here: int, what: str) -> None:
        """Trust nothing from `here` on."""
        self.faulty, self.number = faulty, here - 1
        self.fault = f"{what}; put back a copy of the file, or begin another run in a new folder"


def name_of(row: sqlite3.Row) -> str:
    """What an event is about, as far as it says so: its kind, phase and place."""
    words = [row["kind"], row["phase"], row["place"] and f"in {row['place']}"]
    text = " ".join(str(word) for word in words if word)
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:200]
