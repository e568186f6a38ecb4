"""The rollouts of a run as one table in memory, without their texts, so that any filter is quick.

Each file is read once, and new ones are added as they appear; where one is written again, as after
a kill, or is gone, all are read again. Invariant: a file that cannot be read is named in `broken`
and left out, and the rest is shown.
"""

import json
from pathlib import Path
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coevolve.core.errors import UserError
from coevolve.core.splits import Split
from coevolve.dashboard.web.folders import Stamp, mark
from coevolve.diagnostics.views import pattern, quoted
from coevolve.evaluation.clusters import cautious
from coevolve.evaluation.statistics import Rate, wilson
from coevolve.store.cells import SAME
from coevolve.store.layout import Broken, Part, parts_of, spoiled, sums_of
from coevolve.store.rollouts import problem

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SPLITS = tuple(Split)
"""People may look at the gate, and at the test split once it is open."""
TOGETHER = 400
"""Files read by one statement."""
MEMORY = "1GB"

TABLES = (
    """CREATE TABLE rollouts (
        file INTEGER, "row" INTEGER, version INTEGER, source VARCHAR, step INTEGER,
        "group" UBIGINT, task_id VARCHAR, sample INTEGER, labels VARCHAR, reward FLOAT,
        valid BOOLEAN, optimal BOOLEAN, failure VARCHAR, stop VARCHAR, tokens INTEGER
    )""",
    "CREATE TABLE files (file INTEGER, path VARCHAR, version INTEGER, source VARCHAR)",
)
ADD = """INSERT INTO rollouts
SELECT f.file, r.file_row_number, f.version, f.source, r.step,
       hash(CASE WHEN r."group" <> '' THEN r."group" ELSE r.task_id END), r.task_id, r.sample,
       to_json(r.bucket)::VARCHAR, r.reward, r.valid, r.optimal, r.failure, r.stop,
       r.completion_tokens
FROM read_parquet([{files}], filename = true, file_row_number = true) r
JOIN files f ON f.path = r.filename
"""
COLUMNS = 'SELECT * FROM rollouts ORDER BY file, "row"'


class Words(NamedTuple):
    """A column of a few words; -1 stands for none."""

    codes: NDArray[np.int32]
    words: list[str]

    def at(self, index: int) -> str | None:
        code = int(self.codes[index])
        return None if code < 0 else self.words[code]

    def equal(self, word: str) -> NDArray[np.bool_]:
        return np.equal(self.codes, self.words.index(word) if word in self.words else -2)


class Columns(NamedTuple):
    """The light columns of all rollouts of a run as arrays of one order and length: a filter over a
    million of them is a few comparisons."""

    file: NDArray[np.int32]
    row: NDArray[np.int32]
    version: NDArray[np.int32]
    step: NDArray[np.int32]
    group: NDArray[np.uint64]
    sample: NDArray[np.int32]
    bucket: NDArray[np.int32]
    reward: NDArray[np.float32]
    valid: NDArray[np.bool_]
    optimal: NDArray[np.bool_]
    tokens: NDArray[np.int32]
    source: Words
    failure: Words
    stop: Words
    task_id: Any
    """An Arrow array of text."""
    task: NDArray[np.int32]
    """The same number for the same task."""
    labels: list[dict[str, str]]
    """Of each bucket."""

    def place(self, file: int, row: int) -> int | None:
        """Where a rollout is; None if it is not there."""
        first, last = np.searchsorted(self.file, (file, file + 1))
        at = int(first + np.searchsorted(self.row[first:last], row))
        return at if at < last and self.row[at] == row else None


class Count(NamedTuple):
    """Rollouts of one version and source."""

    version: int
    source: str
    n: int
    valid: Rate
    optimal: Rate
    reward: float
    dead: Rate | None
    """Groups in which every rollout earned the same; only where tasks were tried several times."""
    tokens: float
    """Mean per rollout."""


class Table:
    """The table of one run."""

    def __init__(self, folder: Path) -> None:
        try:
            import duckdb
        except ImportError:
            raise UserError("the dashboard needs duckdb: pip install 'coevolve[serve]'") from None
        self.folder = folder
        self.files: dict[str, tuple[int, Path]] = {}
        """Number and path of each file, by its name below the run, without ending."""
        self.names: dict[int, str] = {}
        self.marks: dict[Path, tuple[int, int] | None] = {}
        """Of every file that was there, to see which are written again."""
        self._columns: tuple[int, Columns] | None = None
        self.broken: list[Broken] = []
        self.changed: dict[Path, str] = {}
        """Those that are not what was recorded, until they are recorded anew."""
        self.changes = 0
        """How often files were added."""
        self.ready = False
        self.seen: Stamp = ()
        self._turn, self._asking = RLock(), Lock()
        settings: dict[str, Any] = {"memory_limit": MEMORY, "threads": 2}
        self.database = duckdb.connect(config=settings)
        for statement in TABLES:
            self.database.execute(statement)

    def refresh(self, stamp: Stamp) -> None:
        """Add what is new since the last time."""
        with self._turn:
            if stamp == self.seen and self.ready:
                return
            try:
                parts = parts_of(self.folder, SPLITS)
            except UserError:
                parts = []
            now = {file: mark(file) for part in parts for file in part.files}
            if any(now.get(file) != before for file, before in self.marks.items()):
                self.forget()
            self.marks = now
            self.broken = [one for one in self.broken if one.file not in self.changed]
            known = {path for _, path in self.files.values()} | {one.file for one in self.broken}
            fresh = [(part, file) for part in parts for file in part.files if file not in known]
            self.changed = spoiled(self.folder, [file for _, file in fresh], sums_of(self.folder))
            self.broken += [Broken(file, why) for file, why in self.changed.items()]
            fresh = [(part, file) for part, file in fresh if file not in self.changed]
            for start in range(0, len(fresh), TOGETHER):
                self.add(fresh[start : start + TOGETHER])
            self.seen, self.ready = stamp, True

    def forget(self) -> None:
        """Begin again, with nothing."""
        for table in ("rollouts", "files"):
            self.ask(f"DELETE FROM {table}")
        self.files, self.names, self.broken = {}, {}, []
        self.changes += 1

    def add(self, fresh: list[tuple[Part, Path]], thoroughly: bool = False) -> None:
        """Read files, those that can be read."""
        import duckdb

        whole = [(part, file) for part, file in fresh if not thoroughly or self.sound(file)]
        if not whole:
            return
        first = len(self.files)
        numbered = [(first + index, part, file) for index, (part, file) in enumerate(whole)]
        cursor = self.cursor()
        try:
            cursor.execute("BEGIN")
            rows = ", ".join(
                f"({n}, {quoted(str(file))}, {part.version}, '{part.source}')"
                for n, part, file in numbered
            )
            cursor.execute(f"INSERT INTO files VALUES {rows}")
            listed = ", ".join(quoted(pattern(file)) for _, _, file in numbered)
            cursor.execute(ADD.format(files=listed))
            cursor.execute("COMMIT")
        except duckdb.Error:
            cursor.execute("ROLLBACK")
            if thoroughly:
                raise
            self.add(whole, thoroughly=True)  # which of them it was
            return
        finally:
            cursor.close()
        for number, _, file in numbered:
            name = str(file.relative_to(self.folder)).removesuffix(".parquet")
            self.files[name], self.names[number] = (number, file), name
        self.changes += 1

    def sound(self, file: Path) -> bool:
        """Whether a file can be read to its end; one that cannot is noted."""
        reason = problem(file, thoroughly=True)
        if reason:
            self.broken.append(Broken(file, reason))
        return not reason

    def problems(self) -> list[str]:
        """Files that cannot be read, in words."""
        return [
            f"{one.file.relative_to(self.folder)} cannot be read: {one.reason}"
            for one in self.broken
        ]

    def cursor(self) -> "DuckDBPyConnection":
        """For one thread; the database is shared."""
        with self._asking:
            return self.database.cursor()

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        with self.cursor() as cursor:
            return cursor.execute(sql).fetchall()

    def columns(self) -> Columns:
        """All rollouts as arrays, in order."""
        with self._turn:
            if self._columns is None or self._columns[0] != self.changes:
                with self.cursor() as cursor:
                    table = cursor.sql(COLUMNS).to_arrow_table()
                self._columns = self.changes, columns_of(table)
            return self._columns[1]

    def counts(self) -> list[Count]:
        """One row per version and source, in order; all attempts at a task are worth one."""
        rows = self.ask(
            f"""SELECT version, source, count(*), sum(n)::BIGINT, sum(valid)::BIGINT,
                   sum(optimal)::BIGINT, sum(reward) / sum(n), count_if(n > 1),
                   count_if(n > 1 AND high - low < {SAME}), sum(tokens) / sum(n)
            FROM (SELECT version, source, "group", count(*) AS n, count_if(valid) AS valid,
                         count_if(optimal) AS optimal, sum(reward) AS reward,
                         max(reward) AS high, min(reward) AS low, sum(tokens) AS tokens
                  FROM rollouts GROUP BY version, source, "group")
            GROUP BY version, source ORDER BY version, source"""
        )
        return [
            Count(version, source, n, cautious(valid, n, tasks), cautious(optimal, n, tasks),
                  reward, wilson(dead, several) if several else None, tokens)
            for version, source, tasks, n, valid, optimal, reward, several, dead, tokens in rows
        ]  # fmt: skip

    def close(self) -> None:
        self.database.close()


def columns_of(table: Any) -> Columns:
    """From an Arrow table whose rows are in order."""
    table = table.combine_chunks()
    found: dict[str, Any] = {
        name: table[name].to_numpy()
        for name in ("file", "row", "version", "step", "group", "sample", "reward", "valid",
                     "optimal", "tokens")
    }  # fmt: skip
    for name in ("source", "failure", "stop"):
        codes, words = encoded(table[name])
        found[name] = Words(codes, words.to_pylist())
    bucket, labels = encoded(table["labels"])
    task, _ = encoded(table["task_id"])
    return Columns(
        **found, bucket=bucket, labels=[json.loads(text) for text in labels.to_pylist()],
        task_id=table["task_id"], task=task,
    )  # fmt: skip


def encoded(column: Any) -> tuple[NDArray[np.int32], Any]:
    """A number for each value, and the values that they stand for."""
    found = column.dictionary_encode().combine_chunks()
    if hasattr(found, "chunk"):
        found = found.chunk(0)
    codes = found.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    return codes, found.dictionary
