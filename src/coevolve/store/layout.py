"""Where the rollouts of a run lie: the folder that a file is in tells its version and its split.

    versions/NN/stage/rollouts/*.parquet   version NN, drawn in training            split train
    versions/NN/dev/*.parquet              version NN, measured                     split dev
    versions/NN/probes/NAME/*.parquet      version NN, probed under other knobs     split train
    versions/NN/gate/*.parquet             version NN, judged                       split gate
    base/gate/*.parquet                  the policy before any version (-1)       split gate
    final/NAME/*.parquet                 the first policy (-1), version 0, the last split test

A folder of a single stage (`stage.json`) is read as a run with the one version 0. Files of a split
that was not asked for are not opened, not listed and not named.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple

from coevolve.core.errors import LedgerError, UserError
from coevolve.core.splits import Split
from coevolve.store.ledger import Ledger
from coevolve.store.paths import Paths
from coevolve.store.rollouts import problem
from coevolve.store.seals import Sums, damages
from coevolve.store.shards import standing

Source = Literal["train", "dev", "probe", "gate", "test"]
VISIBLE = (Split.TRAIN, Split.DEV)
"""Splits that engineers, diagnostics and backtests may read."""
BASE = -1
"""The version of the policy that a run begins with."""


class Part(NamedTuple):
    """Files of one version and one source."""

    version: int
    source: Source
    split: Split
    files: tuple[Path, ...]


class Broken(NamedTuple):
    """A file that was left out, and why."""

    file: Path
    reason: str


def parts_of(folder: Path, splits: Iterable[Split] = VISIBLE) -> list[Part]:
    """What there is of the named splits, by version; empty folders give no part."""
    wanted = set(splits)
    return [
        Part(version, source, split, files)
        for version, source, split, place, pattern in places(folder)
        if split in wanted and (files := tuple(files_in(place, pattern)))
    ]


def files_in(place: Path, pattern: str) -> list[Path]:
    """Files of one source, in order."""
    return [
        file
        for _, own in groupby(sorted(place.glob(pattern)), lambda file: file.parent)
        for file in standing(own)
    ]


def places(folder: Path) -> Iterator[tuple[int, Source, Split, Path, str]]:
    """Version, source and split of every folder that may hold rollouts."""
    if (folder / "stage.json").is_file():
        yield 0, "train", Split.TRAIN, folder / "rollouts", "*.parquet"
        return
    if not (folder / "ledger.db").is_file():
        raise UserError(
            f"{folder} is not the folder of a run or a stage; `coevolve list` shows the runs"
        )
    yield BASE, "gate", Split.GATE, Paths(folder).base_gate, "*.parquet"
    yield BASE, "probe", Split.TRAIN, Paths(folder).folder / "base" / "probes", "*/*.parquet"
    for version, place in version_folders(folder):
        yield version, "train", Split.TRAIN, place / "stage" / "rollouts", "*.parquet"
        yield version, "dev", Split.DEV, place / "dev", "*.parquet"
        yield version, "probe", Split.TRAIN, place / "probes", "*/*.parquet"
        yield version, "gate", Split.GATE, place / "gate", "*.parquet"
    for version, place in tested(folder):
        yield version, "test", Split.TEST, place, "*.parquet"


def tested(folder: Path) -> Iterator[tuple[int, Path]]:
    """Where test tasks were answered, once they were, and the version that did."""
    paths = Paths(folder)
    if not paths.final.is_dir():
        return
    try:
        with Ledger.open(folder, broken=True, read_only=True) as ledger:
            event = ledger.find("phase/run/final")
    except LedgerError:
        return
    if event is None:
        return
    last = Path(paths.find(str(event.payload["last"]["policy"])))
    yield BASE, paths.final / "first"
    yield 0, paths.final / "root"
    for version, place in paths.versions():
        if last.is_relative_to(place):
            yield version, paths.final / "last"


def version_folders(folder: Path) -> list[tuple[int, Path]]:
    """The folders of all versions, in order; a lone stage is the version 0."""
    if (folder / "stage.json").is_file():
        return [(0, folder)]
    return Paths(folder).versions()


def sound(
    folder: Path, parts: Iterable[Part], sums: Sums, thoroughly: bool = False
) -> tuple[list[Part], list[Broken]]:
    """The same parts without the files that cannot be read, or are not what was recorded;
    `thoroughly` reads them to the end."""
    whole, broken, parts = [], [], list(parts)
    changed = spoiled(folder, [file for part in parts for file in part.files], sums)
    for part in parts:
        reasons = {file: changed.get(file) or problem(file, thoroughly) for file in part.files}
        broken += [Broken(file, reason) for file, reason in reasons.items() if reason]
        if files := tuple(file for file, reason in reasons.items() if not reason):
            whole.append(part._replace(files=files))
    return whole, broken


def sums_of(folder: Path) -> Sums:
    """The seals of a run, to be read once and handed on; none without a record that can be read."""
    try:
        with Ledger.open(folder, broken=True, read_only=True) as ledger:
            return ledger.sums()
    except LedgerError:
        return {}


def gone(folder: Path, sums: Sums, splits: Iterable[Split] = VISIBLE) -> list[Broken]:
    """Files of the named splits that are recorded and not there."""
    lost = [folder / path for path in sums if path.endswith(".parquet")]
    lost = [file for file in lost if not file.exists()]
    wanted = set(splits)
    patterns = [str(place / name) for *_, split, place, name in places(folder) if split in wanted]
    return [Broken(file, "is gone") for file in lost if any(map(file.match, patterns))]


def spoiled(
    folder: Path, files: Iterable[Path], sums: Sums, below: Path | None = None
) -> dict[Path, str]:
    """Which of some files, or of all rollouts below a place, are not what was recorded, and why."""
    names = [file.relative_to(folder).as_posix() for file in files if file.is_relative_to(folder)]
    if below is not None and below.is_relative_to(folder):
        start = f"{below.relative_to(folder).as_posix()}/"
        names += [name for name in sums if name.startswith(start) and name.endswith(".parquet")]
    known = {name: sums[name] for name in names if name in sums}
    found = damages(folder, known, read_again=False)
    return {folder / one.path: one.what for one in found}
