"""The ledger: the only reader and writer of the record of a run, `runs/NAME/`.

    ledger.db          every event, in order: SQLite in WAL mode (-wal and -shm belong to it)
    files/SHA256.json  payloads over a megabyte, named after their content
    PLACE/PHASE.json   a phase for people to read; a copy, which `mend` writes again
    lock               held by the process in which the run is going on, and names it

A place is a folder of the run: run, versions/03, generations/02. No path in the record begins
anywhere else, so a run that was moved or copied is as good as it was.

Event 1 is `created` and holds the configuration. A phase gives two events: `began`, once for each
try, and `phase` with its result, once for good. `asked` and `answered` belong to approval.py.
`sealed` holds a hash of every file that came since the one before. `done`, `stopped` and `failed`
end a run until it goes on. All else is a note.

Invariant: an event is recorded, whole and for good, or it did not happen. Each carries a hash of
all before it; one that does not fit, and all that follow it, are named and never used.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from coevolve.core.disk import disk_trouble
from coevolve.core.errors import LedgerError, UserError
from coevolve.core.files import read_regular
from coevolve.core.names import typed
from coevolve.store import events
from coevolve.store.database import Database
from coevolve.store.events import NO_NOTES, Event, State, payload_of, refuse_place
from coevolve.store.files import WriterLock, alone, write
from coevolve.store.jobs import JOB
from coevolve.store.payload import LARGE, decode, differences, encode, small_members
from coevolve.store.seals import Damage, Sums, damages, new_sums

INTERRUPTED = "interrupted"
"""Why a run stopped that a person broke off."""


class Ledger:
    """The record of one run. Anyone may read it at any time; one process at a time writes phases.

    Threads may share a ledger. Processes may not: each opens its own.
    """

    def __init__(self, folder: Path, broken: bool = False, read_only: bool = False) -> None:
        """Open the record of a run that was created.

        If it may be `broken`, one with a fault in its chain of events opens too: it can be read up
        to the fault, and not written. Where nothing can be written it is `read_only` by itself.
        """
        self.folder = folder
        file = folder / "ledger.db"
        try:
            if not file.is_file():
                fix = instead_of(folder)
                raise LedgerError(f"there is no run in {folder}: {file} is missing; {fix}")
        except OSError as error:
            raise LedgerError(f"cannot read {file}: {error.strerror}; give access to it") from error
        self._database = Database(file, broken, read_only)
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
    def open(cls, folder: Path, broken: bool = False, read_only: bool = False) -> Self:
        return cls(folder, broken, read_only)

    @classmethod
    def create(cls, folder: Path, config: Mapping[str, Any]) -> Self:
        """Begin the record of a run, or open it, if it is this run's already."""
        text, file = encode(config, "config"), folder / "ledger.db"
        lost = [name for name in ("versions", "generations", "files") if (folder / name).exists()]
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
        if different := differences(ledger.config, decode(text, "config")):
            ledger.close()
            raise UserError(
                f"{folder} holds another run: {'; '.join(different)}; name a new folder, or "
                "repeat the command that began it"
            )
        return ledger

    @property
    def read_only(self) -> bool:
        """Whether whatever writes is refused."""
        return self._database.read_only

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
        self._database.want_access()
        with self._lock.hold():
            self.mend()
            self.check_files()
            try:
                yield
            except BaseException as error:
                with suppress(LedgerError):
                    self.note_end(error)
                line = disk_trouble(error, self.folder, typed("resume", self.folder))
                if line and isinstance(error, Exception):
                    raise LedgerError(line) from error
                raise

    def note_end(self, error: BaseException) -> None:
        """Record why a run broke off; one that waits for an answer just goes on waiting."""
        if self.state() != "waiting":
            by_hand = isinstance(error, KeyboardInterrupt | SystemExit)
            text = INTERRUPTED if by_hand else f"{type(error).__name__}: {error}".rstrip(": ")
            place, phase = events.place(self._database)
            facts: dict[str, Any] = {"error": text}
            if self._working is not None:
                facts["spent"] = {"seconds": time.monotonic() - self._working}
            self.append("stopped" if by_hand else "failed", facts, place=place, phase=phase)

    def phase(self, place: str, name: str, work: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """The result of a phase: the recorded one, or else that of `work`, recorded now."""
        refuse_place(place, name)
        once = f"phase/{place}/{name}"
        with self.writing():
            if (event := self.find(once)) is None:
                self.append("began", {}, place=place, phase=name)
                started, clock = now(), time.monotonic()
                self._working = clock
                payload = work()
                self.seal()
                self.append(
                    "phase", payload, place=place, phase=name, once=once,
                    started=started, seconds=time.monotonic() - clock,
                )  # fmt: skip
                self._working = None
                self.mend(once)
                event = self.find(once)
            assert event is not None
            return event.payload

    def seal(self, again: Path | None = None) -> None:
        """Record what the files are that have come since, or were made again below a place."""
        if found := new_sums(self.folder, self.sums(), again):
            self.append("sealed", {"files": found})

    def sums(self) -> Sums:
        """What every sealed file was when it was last sealed."""
        found: Sums = {}
        for event in self.events("sealed"):
            found |= event.payload["files"]
        return found

    def damages(self, below: Path | None = None) -> list[Damage]:
        """The files that are not what they were, below a place or everywhere."""
        sums, place = self.sums(), below or self.folder
        return damages(
            self.folder,
            {path: sums[path] for path in sums if (self.folder / path).is_relative_to(place)},
        )

    def clear(self, place: Path) -> list[Path]:
        """Remove the files below a place that are not what they were, for them to be made again;
        what they are made from must be whole."""
        found = self.damages(place)
        if lost := [one for one in found if self.folder / one.path == place / JOB]:
            raise LedgerError(lost[0].words(self.folder))
        for one in found:
            (self.folder / one.path).unlink(missing_ok=True)
        return [self.folder / one.path for one in found]

    def check_files(self) -> None:
        """Refuse to go on from files that are not what they were."""
        if bars := [one for one in self.damages() if one.bars]:
            more = f" ({len(bars)} such files: coevolve fsck {self.folder})" if bars[1:] else ""
            raise LedgerError(bars[0].words(self.folder) + more)

    def recorded(self, place: str, name: str) -> dict[str, Any] | None:
        """What came of a phase, if it is over."""
        event = self.find(f"phase/{place}/{name}")
        return event.payload if event else None

    def note(self, kind: str, *, place: str | None = None, **facts: Any) -> Event:
        """Record anything else: a warning, a budget, or that the run is done or stopped."""
        if kind in NO_NOTES:
            raise LedgerError(f"{kind!r} is recorded by what it is about, not as a note")
        if kind in ("done", "stopped"):
            self.seal()
        event = self.append(kind, facts, place=place)
        assert event is not None
        return event

    def append(
        self, kind: str, payload: Mapping[str, Any], *, place: str | None = None,
        phase: str | None = None, started: str | None = None, seconds: float | None = None,
        once: str | None = None,
    ) -> Event | None:  # fmt: skip
        """Record an event; None if it can happen only once and has happened."""
        if place is not None:
            refuse_place(place)
        self._database.want_access()
        text, file = encode(payload, kind if phase is None else f"{kind} {phase}"), None
        if len(text) > LARGE:
            file = sha256(text.encode("ascii")).hexdigest()
            write(self.large(file), text.encode("ascii"))
            text = small_members(payload)
        values = {
            "time": now(), "kind": kind, "place": place, "phase": phase, "started": started,
            "seconds": seconds, "payload": text, "file": file, "once": once,
        }  # fmt: skip
        row = self._database.append(values)
        return None if row is None else self.event(row)

    @property
    def config(self) -> dict[str, Any]:
        """What the run was created with."""
        event = self.find("created")
        if event is None:
            raise LedgerError(self._database.fault() or f"{self.folder} was never created")
        return event.payload

    def events(self, kind: str | None = None, place: str | None = None) -> list[Event]:
        """What happened, in order: all, or of one kind, or in one place."""
        rows = self._database.read(
            "SELECT * FROM trusted WHERE (kind = ? OR ? IS NULL) AND (place = ? OR ? IS NULL) "
            "ORDER BY number",
            kind, kind, place, place,
        )  # fmt: skip
        return [self.event(row) for row in rows]

    def faults(self) -> list[str]:
        """What is wrong with the record, in words: all that is kept from being used."""
        return self.salvage()[1]

    def salvage(self) -> tuple[list[Event], list[str]]:
        """All that happened before the first fault of the chain, and what is wrong, in words.

        A payload whose file is lost keeps its small members; one that is no JSON is empty.
        """
        found, database = [], self._database
        problems = [fault] if (fault := database.fault()) else []
        if after := database.untrusted():
            which = f"events {after[0]} to {after[-1]}" if after[1:] else f"event {after[0]}"
            problems.append(f"{which} of {database.file}: not used, as what came before is lost")
        for row in database.look("SELECT * FROM trusted ORDER BY number"):
            try:
                found.append(self.event(row))
            except LedgerError as error:
                problems.append(str(error))
                left: dict[str, Any] = {}
                with suppress(LedgerError):
                    left = payload_of(row, database.file)
                with suppress(LedgerError):
                    found.append(events.event_of(row, left, database.file))
        return found, problems

    def last(self) -> Event:
        rows = self._database.read("SELECT * FROM trusted ORDER BY number DESC LIMIT 1")
        if not rows:
            raise LedgerError(self._database.fault() or f"{self.folder} was never created")
        return self.event(rows[0])

    def find(self, once: str) -> Event | None:
        """The event that can happen only once, if it has happened."""
        rows = self._database.read("SELECT * FROM trusted WHERE once = ?", once)
        return self.event(rows[0]) if rows else None

    def members(self, name: str) -> list[tuple[int, Any]]:
        """One small member of every payload that has it, by event number; opens no large file."""
        rows = self._database.read(
            "SELECT * FROM trusted WHERE CASE WHEN json_valid(payload) "
            "THEN json_type(payload, ?) IS NOT NULL ELSE TRUE END ORDER BY number",
            f'$."{name}"',
        )
        values = [(row["number"], payload_of(row, self._database.file)) for row in rows]
        return [(number, value[name]) for number, value in values if name in value]

    def state(self) -> State:
        """Where the run stands by its events; one that was killed is "running"; "broken" stands for
        one that was opened although its chain is."""
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
        stale = self.stale(once)
        for path, data in stale.items():
            self._database.want_access()
            write(path, data)
        return list(stale)

    def stale(self, once: str | None = None) -> dict[Path, bytes]:
        """The phases for people that are missing or damaged, as they should be."""
        found = {}
        for path, data in events.copies(self._database, self.folder, once).items():
            try:
                whole = read_regular(path) == data
            except OSError:
                whole = False
            if not whole:
                found[path] = data
        return found

    def event(self, row: sqlite3.Row) -> Event:
        file = self._database.file
        large = row["file"] and self.large(row["file"])
        payload = events.large_payload(row, large, file) if large else payload_of(row, file)
        return events.event_of(row, payload, file)

    def large(self, name: str) -> Path:
        return self.folder / "files" / f"{name}.json"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def instead_of(folder: Path) -> str:
    """What to do about a folder that is no run."""
    if (folder / "stage.json").is_file():
        return "it is a stage: repeat its `coevolve train`"
    for below in ("*/ledger.db", "*/*/ledger.db"):  # a folder of runs; a comparison
        if found := min(folder.glob(below), default=None):
            return f"name one of those in it, such as {found.parent}"
    return "check the name"
