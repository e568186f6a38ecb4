"""How the SQLite file of a ledger is connected to, and what its errors mean.

Invariant: a ledger that can be read is read, whole, wherever it lies; what lies where nothing can
be written is never tried to be written.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from coevolve.core.errors import LedgerError

BUSY_S = 30.0
"""How long to wait while another process commits."""
NO_ACCESS = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")
"""How the names of errors begin that another way to connect may do without."""


class Connected:
    """A connection to a file, and whether it can write."""

    def __init__(self, file: Path, read_only: bool) -> None:
        """Connect like a writer, or else, or if it is wanted, like a reader."""
        self.file, self.read_only = file, read_only
        self._copy: TemporaryDirectory[str] | None = None
        with explained(file):
            if not read_only:
                try:
                    self.connection = connect(file)
                    self.read_only = not all(
                        os.access(path, os.W_OK) for path in (file.parent, file)
                    )
                    return
                except sqlite3.Error as error:
                    if not error_name(error).startswith(NO_ACCESS) or not file.is_file():
                        raise
            self.connection = self.reader()
            self.read_only = True

    def reader(self) -> sqlite3.Connection:
        """A connection that writes nothing beside the file, not even what SQLite shares it by."""
        address, pending = self.file.absolute().as_uri(), beside(self.file)
        if not pending.exists():
            return connect(f"{address}?mode=ro&immutable=1")
        try:
            return connect(f"{address}?mode=ro")
        except sqlite3.Error as error:
            if not error_name(error).startswith(NO_ACCESS):
                raise
        # Events that were not yet moved into the file can only be read where SQLite may write.
        self._copy = TemporaryDirectory(prefix="coevolve-ledger-")
        try:
            copy = Path(self._copy.name, self.file.name)
            shutil.copyfile(self.file, copy)
            shutil.copyfile(pending, beside(copy))
            return connect(copy)
        except BaseException as error:
            self._copy.cleanup()
            if isinstance(error, OSError):
                raise LedgerError(
                    f"cannot copy {self.file} from its read-only folder to {self._copy.name}: "
                    f"{error.strerror}; make room there, or name another folder as TMPDIR"
                ) from error
            raise

    def close(self) -> None:
        self.connection.close()
        if self._copy is not None:
            self._copy.cleanup()


def beside(file: Path) -> Path:
    """The file with what was committed, but not yet moved into a file."""
    return file.with_name(f"{file.name}-wal")


def connect(address: Path | str) -> sqlite3.Connection:
    """A connection that was tried out."""
    connection = sqlite3.connect(
        address, timeout=BUSY_S, isolation_level=None, check_same_thread=False,
        uri=isinstance(address, str),
    )  # fmt: skip
    try:
        connection.row_factory = sqlite3.Row
        connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        with suppress(sqlite3.Error):
            connection.close()
        raise
    return connection


@contextmanager
def explained(file: Path) -> Iterator[None]:
    """Turn what SQLite says into what happened and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        name = error_name(error)
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            text = damaged(file, str(error))
        elif name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
            text = (
                f"cannot write {file}: {error}; make room on the disk and run it again: what is "
                "recorded stays"
            )
        elif name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            text = f"{file} was busy for {BUSY_S:.0f} s; end the process that holds it open"
        elif name.startswith("SQLITE_READONLY"):
            text = unwritable(file)
        elif name.startswith(NO_ACCESS):
            text = f"cannot open {file}: {error}; give access to the file and its folder"
        else:
            text = f"{file}: {error}"
        raise LedgerError(text) from error


def error_name(error: sqlite3.Error) -> str:
    return str(getattr(error, "sqlite_errorname", ""))


def unwritable(file: Path) -> str:
    return (
        f"cannot write {file}: the folder is read-only; give write access to it, or copy it, and "
        "go on with the copy"
    )


def damaged(file: Path, what: str) -> str:
    what = " ".join(what.split())
    return (
        f"{file} is damaged ({what}); put back a copy of it, or name another folder. The phases "
        f"are still readable as files named after them in the folders of {file.parent}"
    )
