"""Reading and writing JSON lines: errors name the file, the line and the fix; writes are whole."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from coevolve.core.errors import CoevolveError, UserError
from coevolve.core.task import Task
from coevolve.domains.base import Domain


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers and objects of a JSONL file ('-' is standard input); blank lines are skipped."""
    try:
        source = sys.stdin if str(path) == "-" else path.open(encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    with source:
        number = 0
        try:
            for number, line in enumerate(source, 1):
                if not line.strip():
                    continue
                value = json.loads(line)
                if not isinstance(value, dict):
                    raise UserError(
                        f"{path}, line {number}: not a JSON object: {line.strip()[:60]}"
                    )
                yield number, value
        except UnicodeDecodeError as error:
            raise UserError(
                f"{path}, after line {number}: not UTF-8 ({error.reason}); convert the file"
            ) from None
        except (ValueError, RecursionError) as error:
            raise UserError(
                f"{path}, line {number}: not JSON ({error}); one object per line"
            ) from None


def read_tasks(domain: Domain, path: Path) -> Iterator[Task]:
    """Tasks of a JSONL file, each checked by the domain."""
    seen: dict[str, int] = {}
    for number, value in read_lines(path):
        with at_line(path, number):
            task = domain.load(value)
        if task.id in seen:
            raise UserError(
                f"{path}, line {number}: id '{task.id}' was used on line {seen[task.id]}"
            )
        seen[task.id] = number
        yield task


@contextmanager
def at_line(path: Path, number: int) -> Iterator[None]:
    """Put the place in a file before the message of any error of ours."""
    try:
        yield
    except CoevolveError as error:
        raise UserError(f"{path}, line {number}: {error}") from None


@contextmanager
def writing(path: Path | None) -> Iterator[TextIO]:
    """A text file that appears only when it is complete; None is standard output."""
    if path is None or str(path) == "-":
        yield sys.stdout
        return
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8") as target:
            yield target
        os.replace(partial, path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)
