"""Answers that were paid for, kept in one SQLite file.

Invariant: an answer that `put` returned for is on disk; killing the process loses none of them.
"""

import hashlib
import json
import os
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

from coevolve.core.errors import PolicyError
from coevolve.core.rollout import StopReason
from coevolve.policies.base import Completion

BUSY_TIMEOUT_S = 30.0
"""How long another process may hold the file before that is an error."""

SCHEMA = "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL)"


def key_of(parts: dict[str, object]) -> str:
    """A name for everything that determines an answer: SHA-256 of its canonical JSON."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def decode(text: str) -> Completion:
    """A completion from its JSON; ValueError, KeyError or TypeError for anything else."""
    fields = json.loads(text)
    for name in ("tokens", "logprobs", "entropies"):
        fields[name] = None if fields[name] is None else tuple(fields[name])
    return Completion(**{**fields, "stop": StopReason(fields["stop"])})


class AnswerCache:
    """Completions by key, for any number of threads and processes."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process = 0
        self._execute("SELECT 1")

    def get(self, key: str) -> Completion | None:
        """The answer kept under `key`, None if there is none."""
        row = self._execute("SELECT answer FROM answers WHERE key = ?", key)
        if row is None:
            return None
        try:
            return decode(row[0])
        except (ValueError, KeyError, TypeError) as error:
            raise self._error(f"holds an answer that cannot be read ({error!r:.80})") from None

    def put(self, key: str, completion: Completion) -> None:
        """Keep an answer; the first one under a key stays."""
        text = json.dumps(completion._asdict(), ensure_ascii=True)
        self._execute("INSERT OR IGNORE INTO answers VALUES (?, ?)", key, text)

    def __len__(self) -> int:
        return int(self._execute("SELECT count(*) FROM answers")[0])

    def close(self) -> None:
        """Close the file; it opens again when it is next used."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    def _execute(self, statement: str, *values: str) -> Any:
        """The first row of a statement's result; errors name the file and the fix."""
        with self._lock:
            try:
                # A connection must not cross a fork: both sides would write through one lock.
                if self._connection is None or self._process != os.getpid():
                    self._connection, self._process = self._open(), os.getpid()
                return self._connection.execute(statement, values).fetchone()
            except (sqlite3.Error, OSError) as error:
                raise self._error(f"cannot be used ({error})") from None

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(
            self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        try:
            switch_to_wal(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection

    def _error(self, trouble: str) -> PolicyError:
        return PolicyError(
            f"the answer cache {self.path} {trouble}; delete it (its answers are then paid for "
            "again), or set XDG_CACHE_HOME to a folder that can be written"
        )


def switch_to_wal(connection: sqlite3.Connection) -> None:
    """Write-ahead logging: readers and a writer at once, and a killed writer harms nothing."""
    give_up = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            # SQLite does not wait here for another process that does the same at this moment.
            if "locked" not in str(error) or time.monotonic() > give_up:
                raise
            time.sleep(0.01)
