"""Files of a run besides its database: replaced whole, and locked by one writer.

Invariant: the lock belongs to one process and ends with it, however it ends; a process forked off
a run does not keep it.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import WeakSet

from coevolve.core.errors import LedgerError, UserError
from coevolve.core.files import replace_file, settle
from coevolve.core.system import NEEDS_POSIX

try:
    import fcntl
except ImportError:  # Windows, where runs are only read
    fcntl = None  # type: ignore[assignment]

PATIENCE_S = 0.5
"""How long a writer tries: somebody who looks whether a run is going on holds the lock shortly."""


def write(path: Path, data: bytes) -> None:
    """Replace a file, whole or not at all, and be sure that it is on the disk."""
    try:
        replace_file(path, data)
        settle(path.parent)
        settle(path.parent.parent)
    except OSError as error:
        raise LedgerError(
            f"cannot write {path}: {error.strerror}; make room or give access, and run it again: "
            "what is recorded stays"
        ) from error


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Wait until no other process does this with the folder, and keep others waiting."""
    need_locks()
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class WriterLock:
    """An exclusive lock on a file that names the process which holds it."""

    def __init__(self, file: Path, what: str = "run") -> None:
        self.file, self.what = file, what
        self._descriptor: int | None = None
        LOCKS.add(self)

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the lock, or say who does."""
        self._descriptor = self.take()
        try:
            yield
        finally:
            self.release()

    def take(self) -> int:
        need_locks()
        try:
            descriptor = os.open(self.file, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise LedgerError(
                f"cannot write {self.file}: {error.strerror}; give write access to its folder"
            ) from error
        if not locked(descriptor, fcntl.LOCK_EX, PATIENCE_S):
            who = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise UserError(
                f"{self.what} {self.file.parent.name} is going on in process {who or 'unknown'}; "
                "wait for it, or end it first"
            )
        with suppress(OSError):  # a full disk holds no name, but the lock is good
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
        return descriptor

    def holder(self) -> int | None:
        """The process that holds the lock, if one does; 0 if it did not say which it is."""
        if self.held:
            return os.getpid()
        if fcntl is None:
            return None
        try:
            descriptor = os.open(self.file, os.O_RDONLY)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LedgerError(
                f"cannot read {self.file}: {error.strerror}; give read access to it"
            ) from error
        try:
            if locked(descriptor, fcntl.LOCK_SH, 0):
                return None
            who = os.pread(descriptor, 20, 0).strip()
            return int(who) if who.isdigit() else 0
        finally:
            os.close(descriptor)

    def wait(self, patience_s: float, say: Callable[[str], None]) -> None:
        """Until nobody else holds it: where a worker was lost, it may linger. A database beside it
        is not opened before, since two machines cannot share one."""
        end = time.monotonic() + patience_s
        while (process := self.holder()) is not None and time.monotonic() < end:
            say(f"waiting for process {process} to let go of {self.file.parent}")
            time.sleep(1.0)

    def release(self) -> None:
        """Let go. In a forked process this leaves the lock with the parent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


LOCKS: WeakSet[WriterLock] = WeakSet()


def release_all() -> None:
    for lock in LOCKS:
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=release_all)


def need_locks() -> None:
    """Locks that end with their process."""
    if fcntl is None:
        raise UserError(f"writing a run {NEEDS_POSIX}")


def locked(descriptor: int, mode: int, patience_s: float) -> bool:
    """Lock an open file, unless somebody holds it all the while."""
    end = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(0.02)
