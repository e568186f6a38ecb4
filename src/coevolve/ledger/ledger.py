"""The ledger: the only reader and writer of the record of a run, `runs/NAME/`.

    ledger.db            every event, in order: SQLite in WAL mode (-wal and -shm belong to it)
    files/SHA256.json    payloads over a megabyte, named after their content
    rounds/NN/PHASE.json a phase for people to read; a copy, which `mend` writes again
    lock                 held by the process in which the run is going on, and names it

Event 1 is `created` and holds the configuration. A phase gives two events: `began`, once for each
try, and `phase` with its result, once for good. `asked` and `answered` belong to approval.py.
`done`, `stopped` and `failed` end a run until it goes on. All else is a note.

Invariant: an event is recorded, whole and for good, or it did not happen.
"""

import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from coevolve.core.errors import LedgerError, UserError
from coevolve.ledger import events
from coevolve.ledger.database import Database, add
from coevolve.ledger.events import NO_NOTES, Event, State
from coevolve.ledger.files import WriterLock, alone, write
from coevolve.ledger.payload import LARGE, decode, differences, encode, small_members

PHASE_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")


class Ledger:
    """The record of one run. Anyone may read it at any time; one process at a time writes phases.

    Threads may share a ledger. Processes may not: each opens its own.
    """

    def __init__(self, folder: Path) -> None:
        """Open the record of a run that was created."""
        self.folder = folder
        file = folder / "ledger.db"
        if not file.is_file():
            raise LedgerError(f"there is no run in {folder}: {file} is missing; check the name")
        self._database = Database(file)
        self._lock = WriterLock(folder / "lock")
        self._working: float | None = None
        """When the phase that is being worked on was begun."""
        try:
            if not self._database.ready():
                raise LedgerError(f"{file} is empty: the run never began; start it again")
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, folder: Path) -> Self:
        return cls(folder)

    @classmethod
    def create(cls, folder: Path, config: Mapping[str, Any]) -> Self:
        """Begin the record of a run, or open it, if it is this run's already."""
        text, file = encode(config, "config"), folder / "ledger.db"
        lost = [name for name in ("rounds", "files") if (folder / name).exists()]
        if lost and not file.exists():
            raise UserError(f"{folder} holds {lost[0]} of a run without {file}; name a new folder")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot make the folder {folder}: {error.strerror}") from None
        first = {"time": now(), "kind": "created", "payload": text, "once": "created"}
        with alone(folder):
            Database(file).begin(first)
        ledger = cls(folder)
        if different := differences(ledger.config, decode(text)):
            ledger.close()
            raise UserError(
                f"{folder} holds another run: {'; '.join(different)}; name a new folder, or "
                "repeat the command that began it"
            )
        return ledger

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the process in which the run is going on. What breaks off the run is recorded."""
        if self._lock.held:
            yield
            return
        with self._lock.hold():
            self.mend()
            try:
                yield
            except BaseException as error:
                with suppress(LedgerError):
                    self.note_end(error)
                raise

    def note_end(self, error: BaseException) -> None:
        """Record why a run broke off; one that waits for an answer just goes on waiting."""
        if self.state() != "waiting":
            by_hand = isinstance(error, KeyboardInterrupt | SystemExit)
            text = f"{type(error).__name__}: {error}".rstrip(": ")
            round, phase = events.place(self._database)
            facts: dict[str, Any] = {"error": text}
            if self._working is not None:
                facts["spent"] = {"seconds": time.monotonic() - self._working}
            self.append("stopped" if by_hand else "failed", facts, round=round, phase=phase)

    def phase(self, round: int, name: str, work: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """The result of a phase: the recorded one, or else that of `work`, recorded now."""
        if round < 0 or not PHASE_NAME.fullmatch(name):
            raise LedgerError(
                f"round {round}, phase {name!r}: rounds count from 0, and a phase is named by up "
                "to 64 lower-case letters, digits, - and _"
            )
        once = f"phase/{round}/{name}"
        with self.writing():
            if (event := self.find(once)) is None:
                self.append("began", {}, round=round, phase=name)
                started, clock = now(), time.monotonic()
                self._working = clock
                payload = work()
                self.append(
                    "phase", payload, round=round, phase=name, once=once,
                    started=started, seconds=time.monotonic() - clock,
                )  # fmt: skip
                self._working = None
                self.mend(once)
                event = self.find(once)
            assert event is not None
            return event.payload

    def recorded(self, round: int, name: str) -> dict[str, Any] | None:
        """What came of a phase, if it is over."""
        event = self.find(f"phase/{round}/{name}")
        return event.payload if event else None

    def note(self, kind: str, *, round: int | None = None, **facts: Any) -> Event:
        """Record anything else: a warning, a budget, or that the run is done or stopped."""
        if kind in NO_NOTES:
            raise LedgerError(f"{kind!r} is recorded by what it is about, not as a note")
        event = self.append(kind, facts, round=round)
        assert event is not None
        return event

    def append(
        self, kind: str, payload: Mapping[str, Any], *, round: int | None = None,
        phase: str | None = None, started: str | None = None, seconds: float | None = None,
        once: str | None = None,
    ) -> Event | None:  # fmt: skip
        """Record an event; None if it can happen only once and has happened."""
        text, file = encode(payload, kind if phase is None else f"{kind} {phase}"), None
        if len(text) > LARGE:
            file = sha256(text.encode("ascii")).hexdigest()
            write(self.large(file), text.encode("ascii"))
            text = small_members(payload)
        values = {
            "time": now(), "kind": kind, "round": round, "phase": phase, "started": started,
            "seconds": seconds, "payload": text, "file": file, "once": once,
        }  # fmt: skip
        with self._database.transaction() as connection:
            row = add(connection, values)
        return None if row is None else self.event(row)

    @property
    def config(self) -> dict[str, Any]:
        """What the run was created with."""
        event = self.find("created")
        assert event is not None
        return event.payload

    def events(self, kind: str | None = None, round: int | None = None) -> list[Event]:
        """What happened, in order: all, or of one kind, or in one round."""
        rows = self._database.read(
            "SELECT * FROM events WHERE (kind = ? OR ? IS NULL) AND (round = ? OR ? IS NULL) "
            "ORDER BY number",
            kind, kind, round, round,
        )  # fmt: skip
        return [self.event(row) for row in rows]

    def salvage(self) -> tuple[list[Event], list[str]]:
        """All that happened, as far as it can be read, and what is wrong with the rest, in words.

        A payload whose file is lost keeps its small members; one that is no JSON is empty.
        """
        found, problems = [], []
        for row in self._database.read("SELECT * FROM events ORDER BY number"):
            try:
                found.append(self.event(row))
                continue
            except (LedgerError, ValueError) as error:
                where = f"event {row['number']} ({row['phase'] or row['kind']})"
                problems.append(f"{where} of {self.folder.name}: {error}")
            values: dict[str, Any] = {n: row[n] for n in Event.model_fields if n != "payload"}
            try:
                left = decode(row["payload"])
            except ValueError:
                left = {}
            found.append(Event(**values, payload=left))
        return found, problems

    def last(self) -> Event:
        rows = self._database.read("SELECT * FROM events ORDER BY number DESC LIMIT 1")
        return self.event(rows[0])

    def find(self, once: str) -> Event | None:
        """The event that can happen only once, if it has happened."""
        rows = self._database.read("SELECT * FROM events WHERE once = ?", once)
        return self.event(rows[0]) if rows else None

    def members(self, name: str) -> list[tuple[int, Any]]:
        """One small member of every payload that has it, by event number; opens no large file."""
        rows = self._database.read(
            "SELECT number, payload FROM events WHERE json_type(payload, ?) IS NOT NULL "
            "ORDER BY number",
            f'$."{name}"',
        )
        return [(row["number"], decode(row["payload"])[name]) for row in rows]

    def state(self) -> State:
        """Where the run stands by its events; one that was killed is "running"."""
        return events.state(self._database)

    def summary(self) -> dict[str, Any]:
        """The run in a few numbers; `process` is where it is going on, None if nowhere.

        What the events call "running" is "broken off" then.
        """
        facts, process = events.summary(self._database), self._lock.holder()
        if facts["state"] == "running" and process is None:
            facts["state"] = "broken off"
        return {"run": self.folder.name, **facts, "process": process}

    def mend(self, once: str | None = None) -> list[Path]:
        """Write again the phases for people that are missing or damaged, and say which."""
        mended = []
        for path, data in events.copies(self._database, self.folder / "rounds", once).items():
            try:
                whole = path.read_bytes() == data
            except OSError:
                whole = False
            if not whole:
                write(path, data)
                mended.append(path)
        return mended

    def event(self, row: sqlite3.Row) -> Event:
        values = {name: row[name] for name in Event.model_fields if name != "payload"}
        payload = self.load(row["file"]) if row["file"] else decode(row["payload"])
        return Event(**values, payload=payload)

    def large(self, name: str) -> Path:
        return self.folder / "files" / f"{name}.json"

    def load(self, name: str) -> dict[str, Any]:
        """A large payload, if its file still is what was recorded."""
        path = self.large(name)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise LedgerError(f"cannot read {path}: {error.strerror}; put it back") from error
        if sha256(data).hexdigest() != name:
            raise LedgerError(f"{path} was changed after it was recorded; put back a copy of it")
        return decode(data)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
