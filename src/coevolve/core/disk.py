"""What the file system refuses, in one line: it is full, read-only, forbidden or gone.

Libraries say it in many ways, and wrap it in errors of their own; what counts is the cause.
"""

import errno
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from coevolve.core.errors import UserError
from coevolve.core.files import settle

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
UNWRITABLE = (*FULL, errno.EROFS)
FIXES = {
    **dict.fromkeys(FULL, "make room there"),
    errno.EROFS: "make it writable, or copy the folder to where it is",
    errno.EACCES: "give write access to it",
    errno.EPERM: "give write access to it",
    **dict.fromkeys(
        (errno.EIO, errno.ESTALE, errno.ENODEV, errno.ENXIO, errno.ENOTCONN, errno.ETIMEDOUT,
         errno.EHOSTDOWN, errno.EREMOTEIO),
        "see that the file system is there and answers",
    ),
}  # fmt: skip
"""What helps, by the number of the error."""
SQLITE = {"SQLITE_FULL": errno.ENOSPC, "SQLITE_IOERR": errno.EIO, "SQLITE_READONLY": errno.EROFS}
NUMBER = re.compile(r"(?:\berrno|os error) (\d+)", re.IGNORECASE)
SPARE = 16 * 1024 * 1024
"""Bytes for records and what nobody expects."""


def disk_trouble(error: BaseException, folder: Path | None = None, then: str = "") -> str:
    """What the disk refused, in one line with what helps; empty if it was something else."""
    for one in causes(error):
        number = number_of(one)
        if number in FIXES:
            file = getattr(one, "filename", None)
            place = folder or (Path(os.fsdecode(file)) if file else None)
            room = f" ({sizes(free(place))} free)" if number in FULL and place else ""
            what = f"{place}{room}" if place else "the output"
            if file and folder and Path(os.fsdecode(file)) != folder:
                what += f" (at {os.fsdecode(file)})"
            go_on = f", then: {then}" if then else ", and run it again"
            verb = "write" if number in UNWRITABLE else "use"
            return f"cannot {verb} {what}: {os.strerror(number)}; {FIXES[number]}{go_on}"
    if folder is not None and not folder.is_dir():
        go_on = f", then: {then}" if then else ""
        return f"{folder} is gone while it was used; put it back (is it mounted?){go_on}"
    return ""


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error and all that led to it."""
    seen: set[int] = set()
    stack = [error]
    while stack:
        one = stack.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        context = None if one.__suppress_context__ else one.__context__
        stack += [other for other in (one.__cause__, context) if other is not None]


def number_of(error: BaseException) -> int | None:
    """The number of the system's error behind an error, if it is one of the disk: others than a
    full one are of a network, unless they name a file."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno if error.filename or error.errno in UNWRITABLE else None
    name = str(getattr(error, "sqlite_errorname", ""))
    for begin, number in SQLITE.items():
        if name.startswith(begin):
            return number
    text = str(error)
    if "No space left on device" in text:
        return errno.ENOSPC
    found = NUMBER.search(text)
    return int(found[1]) if found and int(found[1]) in UNWRITABLE else None


def want_room(folder: Path, needed: int, then: str) -> None:
    """Refuse to begin what the disk has no room for."""
    if (left := free(folder)) < needed:
        raise UserError(
            f"{folder} has {sizes(left)} of room, and what comes next takes about {sizes(needed)}; "
            f"make room there, then: {then}"
        )


@contextmanager
def answering(folder: Path, say: Callable[[str], None], bound_s: float = 60.0) -> Iterator[None]:
    """While something is done in a folder, say so once its file system has not answered for so
    long: whoever waits for it cannot."""
    over, answered = threading.Event(), threading.Event()

    def look() -> None:
        while not over.wait(bound_s / 4):
            with suppress(OSError):
                settle(folder)
            answered.set()

    def watch() -> None:
        while not over.wait(bound_s):
            if not answered.is_set():
                say(f"{folder}: no answer of its file system for {bound_s:g} s; waiting for it")
                answered.wait()
            answered.clear()

    for work in (look, watch):
        threading.Thread(target=work, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def free(place: Path) -> int:
    """Bytes that can still be written to a place, which need not exist yet."""
    for one in (place, *place.absolute().parents):
        try:
            return shutil.disk_usage(one).free
        except OSError:
            continue
    return 0


def size_of(places: Iterable[Path]) -> int:
    """Bytes of the largest of some files and folders."""
    return max((sum(sizes_in(place)) for place in places), default=0)


def sizes_in(place: Path) -> Iterator[int]:
    for file in (place, *place.rglob("*")):
        try:
            yield file.stat().st_size
        except OSError:
            continue


def sizes(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"
