"""What the files of a run were when a phase was recorded, and what became of them since.

The ledger holds a SHA-256 of every file that the run goes by: evidence, checkpoints, jobs and their
results, skills, diagnostics. Invariant: what is not as it was sealed is named, and never gone by.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

from coevolve.core.names import typed
from coevolve.store.jobs import JOB, RESULT

SEALED = (
    "base", "versions", "branches", "twins", "noise", "final", "skills", "diagnostics", "target*",
)  # fmt: skip
"""What is sealed of a run's folder: these, with all that is below."""
LEARNED = ("skills", "diagnostics")
"""What a run goes on writing; of all else each file is written once."""
AGAIN = ("base", "noise", "final", "dev", "gate", "clean", "probes")
"""Folders of measurements, which are made again where they are missing."""
Sums = dict[str, str]
"""Hashes by path in the folder of a run."""


class Damage(NamedTuple):
    """A file that is not as it was sealed."""

    path: str
    """In the folder of the run."""
    what: str
    fix: str
    command: str
    """What makes it again; empty where only a copy helps."""
    bars: bool
    """Whether the run cannot go on as it would have."""

    def words(self, folder: Path) -> str:
        return f"{folder / self.path} {self.what}; {self.fix}"


def files_of(folder: Path) -> Iterator[str]:
    """The files to be sealed that there are, but for those of jobs that are not done."""
    for top in (one for pattern in SEALED for one in sorted(folder.glob(pattern))):
        for file in sorted(top.rglob("*")) if top.is_dir() else [top]:
            path = file.relative_to(folder)
            copied = len(path.parts) <= 3 and path.suffix == ".json" and path.parts[0] == "versions"
            if copied and path.name not in (JOB, RESULT):
                continue  # of the ledger, which writes it again
            if file.is_file() and not hidden(path) and not under_way(folder, path):
                yield path.as_posix()


def hidden(path: Path) -> bool:
    return path.name == "lock" or any(part.startswith(".") for part in path.parts)


def under_way(folder: Path, path: Path) -> bool:
    place = folder / Path(*path.parts[:2])
    return (place / JOB).exists() and not (place / RESULT).exists()


def new_sums(folder: Path, known: Mapping[str, str], again: Path | None = None) -> Sums:
    """Hashes of the files that have none yet, of those below `again`, and of what was learned."""
    wanted = [
        path
        for path in files_of(folder)
        if path not in known
        or path.startswith(LEARNED)
        or (again and (folder / path).is_relative_to(again))
    ]
    found = hashes(folder, wanted)
    return {path: value for path, value in found.items() if value and known.get(path) != value}


def hashes(folder: Path, paths: Iterable[str], read_again: bool = True) -> dict[str, str | None]:
    """Hashes by path; None where there is no such file. Unless they are to be read again, files
    that nobody wrote to since this process read them are taken as they were."""

    def one(path: str) -> str | None:
        try:
            facts = (folder / path).stat()
            if not S_ISREG(facts.st_mode):
                return ""  # reading it might never end
            read = remembered.__wrapped__ if read_again else remembered
            return read(folder / path, facts.st_size, facts.st_mtime_ns, facts.st_ino)
        except FileNotFoundError:
            return None

    paths = list(paths)
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(paths, pool.map(one, paths), strict=True))


@lru_cache(maxsize=65_536)
def remembered(file: Path, _size: int, _written: int, _inode: int) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def damages(folder: Path, sums: Mapping[str, str], read_again: bool = True) -> list[Damage]:
    """What is not as it was sealed."""
    found = hashes(folder, sums, read_again)
    return [damage(folder, path, found[path]) for path in sums if found[path] != sums[path]]


def damage(folder: Path, path: str, found: str | None) -> Damage:
    parts = path.split("/")
    what = "is gone" if found is None else "is not what was recorded: it was changed"
    own = parts[0] == "versions" and parts[2] in ("stage", "dev", "gate", RESULT)
    command = ""
    if own:
        command = typed("resume", folder, "--retrain")
        fix = f"`{command}` makes it again, or put back a copy"
    elif set(AGAIN) & set(parts):
        command = typed("resume", folder)
        away = "" if found is None else "move it away, and "
        fix = f"{away}`{command}` measures again where it is needed"
    else:
        fix = "put back a copy of it"
    checkpoint = own and "policy" in parts
    harmless = found is None and (checkpoint or bool(set(AGAIN) & set(parts)))
    return Damage(path, what, fix, command, not harmless)
