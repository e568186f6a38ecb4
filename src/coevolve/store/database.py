"""The SQLite file of a ledger: its one table, and how it is read and written.

Invariant: an event that was added stays as it is. Triggers refuse to change, remove or replace
one, from this program or any other, and what was changed all the same is found and never read.
"""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coevolve.core.errors import LedgerError
from coevolve.store.chain import COLUMNS, Chain, link
from coevolve.store.connection import Connected, damaged, explained, unwritable

APPLICATION = 0x636F6576
"""Marks an SQLite file as a ledger."""
VERSION = 2
"""Of the table below; it rises with any change of it."""

SCHEMA = (
    """CREATE TABLE events (
        number INTEGER PRIMARY KEY, -- 1, 2, 3: in order, without a gap
        time TEXT NOT NULL,         -- when it was recorded, UTC, ISO 8601
        kind TEXT NOT NULL,         -- created, began, phase, asked, answered, done, stopped ...
        place TEXT,                 -- a folder of the run, as versions/03; null outside places
        phase TEXT,                 -- null outside phases
        started TEXT,               -- of a phase, UTC, ISO 8601
        seconds REAL,               -- of a phase, by a clock that nobody sets
        payload TEXT NOT NULL,      -- a JSON object; only its small members where `file` is set
        file TEXT,                  -- SHA-256 of files/SHA.json, which holds the whole payload
        once TEXT UNIQUE,           -- what can happen only once: created, phase/PLACE/NAME ...
        chain TEXT NOT NULL         -- SHA-256 of the chain before it and of all the above
    )""",
    """CREATE TRIGGER nothing_changes BEFORE UPDATE ON events
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only: events never change'); END""",
    """CREATE TRIGGER nothing_goes BEFORE DELETE ON events
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only: events never go'); END""",
    """CREATE TRIGGER nothing_is_replaced BEFORE INSERT ON events
        WHEN NEW.number IS NOT (SELECT coalesce(max(number), 0) + 1 FROM events)
            OR EXISTS (SELECT 1 FROM events WHERE once = NEW.once)
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only: events come last, once'); END""",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)
TRUSTED = """CREATE TEMP VIEW trusted AS
    SELECT * FROM main.events WHERE number BETWEEN 1 AND last_trusted()"""
"""The events up to the first that is not what was recorded; `read` is for this alone."""


class Database:
    """A connection that several threads may share, and whose errors say what to do."""

    def __init__(self, file: Path, broken: bool = False, read_only: bool = False) -> None:
        """Connect to a file that is there, or, for `begin`, to a new one.

        One whose chain is broken is read up to there if it may be `broken`, else not at all.
        """
        self.file, self.broken = file, broken
        self._turn = threading.RLock()
        self._chain = Chain(file)
        self._connected = Connected(file, read_only)
        self._connection = self._connected.connection

    @property
    def read_only(self) -> bool:
        return self._connected.read_only

    def close(self) -> None:
        self._connected.close()

    def begin(self, first: dict[str, Any]) -> None:
        """Lay out the table in a file without one, with its first event; all of it or nothing.

        One process at a time: SQLite does not wait for another that turns on WAL.
        """
        try:
            if not self.ready():
                self.want_access()
                self.look("PRAGMA journal_mode = WAL")
                with self.transaction() as connection:
                    for statement in SCHEMA:
                        connection.execute(statement)
                    add(connection, first, 1, "")
        finally:
            self.close()

    def ready(self) -> bool:
        """Whether there is a ledger in the file. An error, if something else or a broken one is."""
        self.look("PRAGMA synchronous = FULL")
        tables = self.look("SELECT count(*) FROM sqlite_master")[0][0]
        application = self.look("PRAGMA application_id")[0][0]
        version = self.look("PRAGMA user_version")[0][0]
        if not tables and not application:
            return False
        if application != APPLICATION:
            raise LedgerError(f"{self.file} is not a ledger; name another folder")
        if version != VERSION:
            age, fix = (
                ("an older", "begin another run in a new folder")
                if version < VERSION
                else ("a newer", "use the coevolve that wrote it")
            )
            raise LedgerError(
                f"{self.file} was written by {age} coevolve, as version {version}, and this "
                f"program reads version {VERSION}; {fix}"
            )
        found = self.look("PRAGMA integrity_check(1)")[0][0]
        if found != "ok":
            raise LedgerError(damaged(self.file, found))
        with explained(self.file):
            self._connection.create_function("last_trusted", 0, lambda: self._chain.number)
            self._connection.execute(TRUSTED)
        self.want_whole()
        return True

    def look(self, query: str, *values: object) -> list[sqlite3.Row]:
        """Read anything, whether it can be trusted or not."""
        with self._turn, explained(self.file):
            return self._connection.execute(query, values).fetchall()

    def read(self, query: str, *values: object) -> list[sqlite3.Row]:
        """Read of `trusted`, after a look at what was added to it."""
        with self._turn:
            self.want_whole()
            return self.look(query, *values)

    def fault(self) -> str | None:
        """What is wrong with the first event that is not what was recorded, if there is one."""
        with self._turn, explained(self.file):
            if self._chain.fault is None:
                names = ", ".join(COLUMNS)
                query = f"SELECT {names}, chain FROM main.events WHERE number >= ? ORDER BY number"
                self._chain.follow(self._connection.execute(query, (self._chain.start,)))
            return self._chain.fault

    def untrusted(self) -> list[int]:
        """The numbers of the events after the first that is not what was recorded."""
        if self.fault() is None:
            return []
        rows = self.look(
            "SELECT number FROM main.events WHERE number > ? AND number <> ? ORDER BY number",
            self._chain.number, self._chain.faulty,
        )  # fmt: skip
        return [row["number"] for row in rows]

    def want_whole(self) -> None:
        if (fault := self.fault()) is not None and not self.broken:
            raise LedgerError(fault)

    def want_access(self) -> None:
        if self.read_only:
            raise LedgerError(unwritable(self.file))
        if self.broken and (fault := self.fault()) is not None:
            raise LedgerError(fault)

    def append(self, values: dict[str, Any]) -> sqlite3.Row | None:
        """Add an event; None if it can happen only once and has happened."""
        self.want_access()
        with self.transaction() as connection:
            if (fault := self.fault()) is not None:
                raise LedgerError(fault)
            once = values.get("once")
            found = connection.execute("SELECT 1 FROM main.events WHERE once = ?", (once,))
            if once is not None and found.fetchone():
                return None
            return add(connection, values, self._chain.number + 1, self._chain.end)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of it is on the disk after this, or, after an error, nothing."""
        with self._turn, explained(self.file):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


def add(
    connection: sqlite3.Connection, values: dict[str, Any], number: int, before: str
) -> sqlite3.Row:
    """Add an event after the one whose chain is `before`, inside a transaction."""
    values = {**dict.fromkeys(COLUMNS), **values, "number": number}
    if values["seconds"] is not None:
        values["seconds"] = float(values["seconds"])
    values["chain"] = link(before, values)
    names, marks = ", ".join(values), ", ".join("?" * len(values))
    connection.execute(
        f"INSERT INTO main.events ({names}) VALUES ({marks})", tuple(values.values())
    )
    row: sqlite3.Row = connection.execute(
        "SELECT * FROM main.events WHERE number = ?", (number,)
    ).fetchone()
    if link(before, row) != row["chain"]:
        odd = [name for name in COLUMNS if repr(row[name]) != repr(values[name])]
        raise LedgerError(
            f"event {number} ({values['kind']}) is not recorded: its {', '.join(odd)} would not "
            "read back as given; give text, and numbers that are finite"
        )
    return row
