"""The SQLite file of a ledger: its one table, and how it is opened, read and written.

Invariant: an event that was added stays as it is. Triggers refuse to change, remove or replace
one, from this program or any other.
"""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coevolve.core.errors import LedgerError

APPLICATION = 0x636F6576
"""Marks an SQLite file as a ledger."""
VERSION = 1
"""Of the table below; it rises with any change of it."""
BUSY_S = 30.0
"""How long to wait while another process commits."""

SCHEMA = (
    """CREATE TABLE events (
        number INTEGER PRIMARY KEY, -- 1, 2, 3: in order, without a gap
        time TEXT NOT NULL,         -- when it was recorded, UTC, ISO 8601
        kind TEXT NOT NULL,         -- created, began, phase, asked, answered, done, stopped ...
        round INTEGER,              -- null outside rounds
        phase TEXT,                 -- null outside phases
        started TEXT,               -- of a phase, UTC, ISO 8601
        seconds REAL,               -- of a phase, by a clock that nobody sets
        payload TEXT NOT NULL,      -- a JSON object; only its small members where `file` is set
        file TEXT,                  -- SHA-256 of files/SHA.json, which holds the whole payload
        once TEXT UNIQUE            -- what can happen only once: created, phase/ROUND/NAME ...
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


class Database:
    """A connection that several threads may share, and whose errors say what to do."""

    def __init__(self, file: Path) -> None:
        """Connect to a file that is there, or, for `begin`, to a new one."""
        self.file = file
        self._turn = threading.RLock()
        with explained(file):
            self._connection = sqlite3.connect(
                file, timeout=BUSY_S, isolation_level=None, check_same_thread=False
            )
            self._connection.row_factory = sqlite3.Row

    def close(self) -> None:
        self._connection.close()

    def begin(self, first: dict[str, Any]) -> None:
        """Lay out the table in a file without one, with its first event; all of it or nothing.

        One process at a time: SQLite does not wait for another that turns on WAL.
        """
        try:
            if not self.ready():
                self.read("PRAGMA journal_mode = WAL")
                with self.transaction() as connection:
                    for statement in SCHEMA:
                        connection.execute(statement)
                    add(connection, first)
        finally:
            self.close()

    def ready(self) -> bool:
        """Whether there is a ledger in the file. An error, if something else or a broken one is."""
        self.read("PRAGMA synchronous = FULL")
        tables = self.read("SELECT count(*) FROM sqlite_master")[0][0]
        application = self.read("PRAGMA application_id")[0][0]
        version = self.read("PRAGMA user_version")[0][0]
        if not tables and not application:
            return False
        if application != APPLICATION:
            raise LedgerError(f"{self.file} is no ledger; name another folder")
        if version != VERSION:
            raise LedgerError(
                f"{self.file} is a ledger of version {version}, and this program reads version "
                f"{VERSION}; use the coevolve that wrote it"
            )
        found = self.read("PRAGMA quick_check(1)")[0][0]
        if found != "ok":
            raise LedgerError(damaged(self.file, found))
        return True

    def read(self, query: str, *values: object) -> list[sqlite3.Row]:
        with self._turn, explained(self.file):
            return self._connection.execute(query, values).fetchall()

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


def add(connection: sqlite3.Connection, values: dict[str, Any]) -> sqlite3.Row | None:
    """Add an event, inside a transaction; None if it can happen only once and has happened."""
    once = values.get("once")
    if once and connection.execute("SELECT 1 FROM events WHERE once = ?", (once,)).fetchone():
        return None
    number = connection.execute("SELECT coalesce(max(number), 0) + 1 FROM events").fetchone()[0]
    values = {"number": number, **values}
    names = ", ".join(values)
    places = ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO events ({names}) VALUES ({places})", tuple(values.values()))
    row: sqlite3.Row = connection.execute(
        "SELECT * FROM events WHERE number = ?", (number,)
    ).fetchone()
    return row


@contextmanager
def explained(file: Path) -> Iterator[None]:
    """Turn what SQLite says into what happened and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            text = damaged(file, str(error))
        elif name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
            text = (
                f"cannot write {file}: {error}; make room on the disk and run it again: what is "
                "recorded stays"
            )
        elif name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            text = f"{file} was busy for {BUSY_S:.0f} s; end the process that holds it open"
        elif name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
            text = f"cannot open {file}: {error}; give write access to the file and its folder"
        else:
            text = f"{file}: {error}"
        raise LedgerError(text) from error


def damaged(file: Path, what: str) -> str:
    what = " ".join(what.split())
    return (
        f"{file} is damaged ({what}); put back a copy of it, or name another folder. The phases "
        f"are still readable in {file.parent / 'rounds'}"
    )
