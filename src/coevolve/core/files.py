"""Files of ours: replaced whole or not at all, and where those are kept that can be made again."""

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from coevolve.core.errors import UserError


def replace_file(path: Path, data: bytes) -> None:
    """Write a file beside its place, then put it there; its folder is made if need be."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def read_regular(path: Path) -> bytes:
    """What a file holds. What only waits until somebody writes to it, such as a pipe, is an error:
    nobody does in the folder of a run."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return file.read()


HERE = "run:"
"""Begins the name of what lies in the folder of its run."""


def name_in(folder: Path, place: str) -> str:
    """A place as it is recorded: relative where it lies in a folder that may be moved."""
    path = Path(place)
    inside = path.is_absolute() and path.is_relative_to(folder)
    return f"{HERE}{path.relative_to(folder)}" if inside else place


def settle(folder: Path, deep: bool = False) -> None:
    """Have the names in a folder on the disk, where a power cut leaves them; `deep`: all below."""
    for path in (*(folder.rglob("*") if deep else ()), folder):
        if path.is_dir() and not hasattr(os, "O_DIRECTORY"):  # Windows opens no folders
            continue
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError:
            if not path.is_dir():  # folders cannot be waited for on every file system
                raise
        finally:
            os.close(descriptor)


def cache_root() -> Path:
    """Where this user's files go that can be made again."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "coevolve"


def storable(text: str) -> str:
    """The text with half surrogate pairs replaced, which no file or request can carry."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@contextmanager
def writing(path: Path | None) -> Iterator[TextIO]:
    """A text file that appears only when it is complete; None is standard output.

    What exists and is not a regular file, such as a pipe or a device, is written to as it is.
    """
    if path is None or str(path) == "-":
        yield sys.stdout
        return
    try:
        path = path.resolve()
        whole = not path.exists() or path.is_file()
        target = path.with_name(path.name + ".partial") if whole and path.name else path
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with target.open("w", encoding="utf-8") as file:
                yield file
            if target != path:
                os.replace(target, path)
        finally:
            if target != path and target.is_file():
                target.unlink()
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None
