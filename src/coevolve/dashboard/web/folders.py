"""The folder that is served: which runs and comparisons are in it.

Invariant: a run is found by walking down from the folder, never by putting a name into a path.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from coevolve.core.errors import UserError
from coevolve.dashboard.record import is_run
from coevolve.store.files import WriterLock

DEEPEST = 4
"""Levels of folders below the one that is served in which runs are looked for."""
OFTEN_S = 0.3
"""What is on the disk is looked at no more often than this."""
PARTS = ("", "stage", "stage/rollouts", "stage/policy", "dev", "gate", "probes")
"""Of the folder of a version: what changes when something is added or lost."""

Stamp = tuple[object, ...]


class RunFolder(NamedTuple):
    """A run and what it is called: its path below the folder."""

    name: str
    folder: Path


class Folders:
    """What is found in a folder of runs."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise UserError(
                f"{root} is not a folder; name the one that holds your runs, or make a first one: "
                "coevolve run"
            )
        self.root = root.resolve()
        self._turn = Lock()
        self._listed: tuple[float, dict[str, RunFolder], dict[str, Path]] = (0.0, {}, {})
        self._stamps: dict[str, tuple[float, Stamp]] = {}

    def runs(self) -> dict[str, RunFolder]:
        """Every run by its name, in order."""
        return self._look()[1]

    def comparisons(self) -> dict[str, Path]:
        """Every folder that holds arms, by its name."""
        return self._look()[2]

    def find(self, address: str) -> tuple[RunFolder, str] | None:
        """The run that an address begins with, and the rest of the address."""
        found = self.runs()
        parts = address.strip("/").split("/")
        for end in range(1, len(parts) + 1):
            if (name := "/".join(parts[:end])) in found:
                return found[name], "/".join(parts[end:])
        return None

    def stamp(self, run: RunFolder) -> Stamp:
        """What changes whenever something is recorded in a run."""
        seen, stamp = self._stamps.get(run.name, (0.0, ()))
        if time.monotonic() - seen > OFTEN_S:
            stamp = stamp_of(run.folder)
            self._stamps[run.name] = time.monotonic(), stamp
        return stamp

    def _look(self) -> tuple[float, dict[str, RunFolder], dict[str, Path]]:
        with self._turn:
            if time.monotonic() - self._listed[0] > OFTEN_S or not self._listed[1]:
                runs = {run.name: run for run in runs_below(self.root)}
                arms = {run.folder.parents[1] for run in runs.values() if is_arm(run)}
                compared = {str(arm.relative_to(self.root)): arm for arm in sorted(arms)}
                self._listed = time.monotonic(), dict(sorted(runs.items())), compared
            return self._listed


def runs_below(root: Path) -> Iterator[RunFolder]:
    """All runs; what is inside a run is not looked at, and no link is followed."""
    if is_run(root):
        yield RunFolder(root.name, root)
        return
    level = [root]
    for _ in range(DEEPEST):
        inner = [folder for one in level for folder in folders(one)]
        found = [folder for folder in inner if is_run(folder)]
        yield from (RunFolder(str(folder.relative_to(root)), folder) for folder in found)
        level = [folder for folder in inner if folder not in set(found)]


def folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [
                Path(entry.path)
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
            ]
    except OSError:
        return []


def is_arm(run: RunFolder) -> bool:
    return (run.folder / "job.json").is_file() and run.name.count("/") >= 2


def stamp_of(folder: Path) -> Stamp:
    """Times and sizes of what tells that something was recorded, and whether the run goes on."""
    found: list[object] = [WriterLock(folder / "lock").holder()]
    names = ("ledger.db", "ledger.db-wal", "base/gate", "versions", "generations", "diagnostics")
    found += [mark(folder / name) for name in names]
    versions = sorted(place for place in folders(folder / "versions") if place.name.isdecimal())
    found += [tuple(mark(f"{place}/{part}") for part in PARTS) for place in versions]
    found += [mark(place / "stage" / "steps.jsonl") for place in versions[-2:]]
    return tuple(found)


def mark(path: str | Path) -> tuple[int, int] | None:
    """When something changed, and its size; None where there is nothing."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    empty = str(path).endswith("-wal") and not status.st_size  # comes and goes with every reader
    return None if empty else (status.st_mtime_ns, status.st_size)
