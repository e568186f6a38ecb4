"""The files of a stage's rollouts: one per step and process while it trains, a few once it is done.

    step-SSSSSS-P.parquet         what process P drew for the step S
    steps-FFFFFF-LLLLLL.parquet   what all processes drew for the steps from F to L

Invariant: at any instant, also after a kill, every rollout is read once, in the order of steps and
processes. A file of many steps stands for those that it was made of from the moment it is there.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pyarrow
from pyarrow import compute

from coevolve.store.rollouts import SCHEMA, blocks, problem, read_file, writing

ROWS = 1_024
"""Rollouts of a block, at least: what is read to show one of them."""
LARGE = 32 * 2**20
"""Bytes from which on a file is large enough."""


class Span(NamedTuple):
    """Which rollouts are in a file."""

    first: int
    last: int
    """Steps."""
    process: int
    """-1 for all."""

    def stands_for(self, other: "Span") -> bool:
        """Whether, of all processes, it has all steps of another one."""
        return self != other and self.first <= other.first and other.last <= self.last


def step_file(folder: Path, step: int, process: int = 0) -> Path:
    """Where a process writes what it drew for a step."""
    return folder / f"step-{step:06d}-{process}.parquet"


def steps_file(folder: Path, first: int, last: int) -> Path:
    """Where the rollouts of many steps are."""
    return folder / f"steps-{first:06d}-{last:06d}.parquet"


def span_of(file: Path) -> Span | None:
    """By its name; None for files that are no stage's."""
    kind, *numbers = file.stem.split("-")
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        return None
    one, other = map(int, numbers)
    return {"step": Span(one, one, other), "steps": Span(one, other, -1)}.get(kind)


def step_of(file: Path) -> int | None:
    """The step of a file that holds one."""
    span = span_of(file)
    return span.first if span and span.process >= 0 else None


def standing(files: Iterable[Path]) -> list[Path]:
    """Files of a folder in order, without those that another one stands for."""
    spans = {file: span_of(file) for file in files}
    many = [span for span in spans.values() if span and span.process < 0]
    found = [
        file
        for file, span in spans.items()
        if span is None or not any(one.stands_for(span) for one in many)
    ]
    return sorted(found, key=lambda file: (spans[file] or Span(-1, -1, -1), file.name))


def stage_files(folder: Path) -> list[Path]:
    """All files of a stage's rollouts, in order."""
    return standing(folder.glob("*.parquet"))


def read(folder: Path) -> pyarrow.Table:
    """All rollouts of a stage, in order."""
    files = stage_files(folder)
    return pyarrow.concat_tables([SCHEMA.empty_table(), *map(read_file, files)])


def compact(folder: Path) -> None:
    """Make a few large files of the many small ones of a stage that nobody writes to any more.

    What cannot be read, or does not fit on the disk, stays as it is.
    """
    tidy(folder)
    for own in runs_of(stage_files(folder)):
        first, last = (span_of(file) for file in (own[0], own[-1]))
        assert first is not None
        assert last is not None
        with suppress(OSError, pyarrow.ArrowException):
            merge(own, steps_file(folder, first.first, last.last))
    for file in set(folder.glob("*.parquet")) - set(stage_files(folder)):
        file.unlink(missing_ok=True)


def runs_of(files: Iterable[Path]) -> Iterator[list[Path]]:
    """Files of whole steps that lie beside each other, enough of them to make a large one."""
    run: list[Path] = []
    size = 0
    for step, own in groupby(files, step_of):
        if step is not None:
            members = list(own)
            run += members
            size += sum(file.stat().st_size for file in members)
        if step is None or size >= LARGE:
            if len(run) > 1:
                yield run
            run, size = [], 0
    if len(run) > 1:
        yield run


def merge(files: Iterable[Path], path: Path) -> None:
    """Write the rows of some files, in order, to one."""
    with writing(path) as made:
        waiting: list[pyarrow.Table] = []
        for file in files:
            if reason := problem(file):
                raise pyarrow.ArrowInvalid(f"{file}: {reason}")
            waiting.append(read_file(file))
            if sum(map(len, waiting)) >= ROWS:
                made.write_table(pyarrow.concat_tables(waiting))
                waiting = []
        if waiting:
            made.write_table(pyarrow.concat_tables(waiting))


def tidy(folder: Path) -> None:
    """Drop what killed writers left half-done."""
    for file in folder.glob(".step*.parquet.*"):
        file.unlink()


def forget(folder: Path, step: int) -> None:
    """Drop what was drawn from a step on."""
    tidy(folder)
    for file in stage_files(folder):
        span = span_of(file)
        if span is None or span.last < step:
            continue
        if span.first < step:
            with writing(steps_file(folder, span.first, step - 1)) as kept:
                for block in blocks(file):
                    kept.write_table(block.filter(compute.field("step") < step))
        file.unlink()
