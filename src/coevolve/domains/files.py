"""Tasks, and other lines of JSON, read from files: errors name the file, the line and the fix."""

import gzip
import json
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from coevolve.core.errors import CoevolveError, UserError
from coevolve.core.names import lookup
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.domains.hub import PREFIX, read_rows

SUITE = "suite:"
"""Begins the name of a frozen suite, where a file could be named, too."""
MARK = "\N{BYTE ORDER MARK}"
"""What some editors put before the first line of a file."""


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers and objects of a JSONL file ('-' is standard input); blank lines are skipped.

    A path that begins with `hf:` is a data set of the Hugging Face hub.
    """
    for number, value in each_line(path):
        if isinstance(value, UserError):
            raise value
        yield number, value


def each_line(path: Path) -> Iterator[tuple[int, dict[str, Any] | UserError]]:
    """The same, with what is wrong in the place of a line that cannot be read."""
    if str(path).startswith(PREFIX):
        yield from enumerate(read_rows(str(path)), 1)
        return
    try:
        source = opened(path)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    with source:
        try:
            for number, line in enumerate(source, 1):
                try:
                    text = line.decode("utf-8").removeprefix(MARK).strip()
                    value = json.loads(text) if text else {}
                except UnicodeDecodeError as error:
                    reason = f"not UTF-8 ({error.reason}); convert the file"
                    yield number, UserError(f"{path}, line {number}: {reason}")
                    continue
                except (ValueError, RecursionError) as error:
                    reason = f"not JSON ({error}); one object per line"
                    yield number, UserError(f"{path}, line {number}: {reason}")
                    continue
                if not isinstance(value, dict):
                    reason = f"not a JSON object: {text[:60]}"
                    yield number, UserError(f"{path}, line {number}: {reason}")
                elif text:
                    yield number, value
        except (OSError, EOFError, zlib.error) as error:
            said = getattr(error, "strerror", None) or error
            raise UserError(f"cannot read {path}: {said}") from None


def opened(path: Path) -> BinaryIO | gzip.GzipFile:
    """A file, also one that gzip has packed, or standard input.

    Bytes, since text that is decoded in blocks cannot say in which line it broke.
    """
    if str(path) == "-":
        return sys.stdin.buffer
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def name_of(value: dict[str, Any], path: Path, number: int) -> str | None:
    """The id of a line as text, None if it has none."""
    name = value.get("id")
    if name is None:
        return None
    if isinstance(name, int) and not isinstance(name, bool):
        return str(name)
    if not isinstance(name, str) or not name.isprintable():
        raise UserError(f"{path}, line {number}: `id` is {name!r:.60}; use printable text")
    return name


def read_tasks(domain: Domain, path: Path) -> Iterator[Task]:
    """Tasks of a JSONL file, each checked by the domain."""
    seen: dict[str, tuple[int, object]] = {}
    for number, value in read_lines(path):
        name_of(value, path, number)
        with at_line(path, number):
            task = domain.load(value)
        first, data = seen.setdefault(task.id, (number, task.data))
        if data != task.data:
            raise UserError(
                f"{path}, line {number}: id '{task.id}' is another task's, on line {first}"
            )
        yield task


@contextmanager
def at_line(path: Path, number: int) -> Iterator[None]:
    """Put the place in a file before the message of any error of ours."""
    try:
        yield
    except CoevolveError as error:
        raise UserError(f"{path}, line {number}: {error}") from None


def listed_tasks(domain: Domain, name: str) -> list[Task]:
    """All tasks of `suite:NAME`, a frozen suite of the domain, or of a JSONL file."""
    if name.startswith(SUITE):
        return list(lookup("suite", name.removeprefix(SUITE), domain.suites)())
    return list(read_tasks(domain, Path(name)))
