"""Where repositories come from: sdists of the registry by name and version, and git repositories.

A source gives a tree: every file's path and bytes, without any history.
"""

import gzip
import io
import tarfile
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path, PurePosixPath
from typing import Any

from coevolve.core.errors import UserError
from coevolve.core.rollout import Value
from coevolve.core.seeds import digest
from coevolve.domains.swe.fetch import fetch
from coevolve.domains.swe.git import committed
from coevolve.domains.swe.needs import Wheel

Tree = dict[str, bytes]
"""A repository as a value: paths with slashes, below its root."""
MOST_FILES = 4_000
MOST_BYTES = 24 << 20
MOST_STREAM = 96 << 20
"""Bytes that an archive may unpack to, with all that is left out of a tree."""
BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    NotImplementedError,
    RuntimeError,
)


class Source(Value):
    """One repository."""

    name: str
    """What people call it: `toolz==1.2.0`, or the folder of a git repository."""
    package: str
    version: str = ""
    """For an sdist."""
    sha256: str = ""
    """Of the sdist; empty if only the registry states it."""
    folder: str = ""
    """For a git repository."""
    wheels: tuple[Wheel, ...] = ()
    """What its tests need beside it."""


@cache
def shipped() -> tuple[Source, ...]:
    """The packages that tasks are made of if nothing else is asked for."""
    text = (Path(__file__).parent / "packages.toml").read_text("utf-8")
    return tuple(
        Source(
            name=f"{one['name']}=={one['version']}",
            package=one["name"],
            version=one["version"],
            sha256=one["sha256"],
            wheels=tuple(
                Wheel(file=file, sha256=sha256) for file, sha256 in one.get("wheels", {}).items()
            ),
        )
        for one in tomllib.loads(text)["package"]
    )


def read_source(word: str) -> Source:
    """The source that a word names: NAME==VERSION, or the folder of a git repository."""
    for known in shipped():
        if word == known.name:
            return known
    package, equals, version = word.partition("==")
    if equals and package and version and "/" not in word:
        return Source(name=word, package=package, version=version)
    folder = Path(word).expanduser()
    if not folder.is_dir():
        raise UserError(f"'{word}' is neither NAME==VERSION nor the folder of a git repository")
    folder = folder.resolve()
    return Source(name=str(folder), package=folder.name, folder=str(folder))


def tree_of(source: Source) -> Tree:
    """All files of a source."""
    if source.folder:
        return dict(bounded(committed(Path(source.folder)), source.name))
    kept = fetch(source.package, source.version, source.sha256)
    try:
        members = zip_members if kept.suffix == ".zip" else tar_members
        tree = {
            "/".join(PurePosixPath(name).parts[1:]): data
            for name, data in bounded(members(kept.read_bytes()), source.name)
            if len(PurePosixPath(name).parts) > 1
        }
    except BROKEN as error:
        reason = str(error).partition("\n")[0].rstrip(":")
        raise UserError(f"the sdist of {source.name} does not unpack: {reason}") from None
    if not tree:
        raise UserError(f"the sdist of {source.name} holds no files")
    return tree


Member = tuple[str, int, Callable[[], bytes]]
"""Name, size, and what reads it."""


class Counted(io.RawIOBase):
    """A packed stream that ends with an error where it unpacks to too much."""

    def __init__(self, data: bytes) -> None:
        self.inner, self.left = gzip.GzipFile(fileobj=io.BytesIO(data)), MOST_STREAM

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.inner.read(len(buffer))
        self.left -= len(data)
        if self.left < 0:
            raise ValueError(f"it unpacks to more than {MOST_STREAM >> 20} MB")
        buffer[: len(data)] = data
        return len(data)


def tar_members(data: bytes) -> Iterator[Member]:
    with tarfile.open(fileobj=io.BufferedReader(Counted(data), 1 << 16), mode="r|") as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None:
                yield member.name, member.size, file.read


def zip_members(data: bytes) -> Iterator[Member]:
    if data.count(b"PK\x01\x02") > 4 * MOST_FILES:
        raise ValueError(f"it lists more than {4 * MOST_FILES} files")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in archive.infolist():
            if not member.is_dir():
                yield member.filename, member.file_size, partial(archive.read, member)


def bounded(members: Iterable[Member], name: str) -> Iterator[tuple[str, bytes]]:
    """Files that can be put below a folder; one that is too much is not read."""
    count = size = 0
    for path, length, read in members:
        parts = PurePosixPath(path).parts
        if path.startswith("/") or ".." in parts or ".git" in parts or not path.isprintable():
            continue
        count, size = count + 1, size + length
        if count > MOST_FILES or size > MOST_BYTES:
            raise UserError(
                f"{name} is too large: more than {MOST_FILES} files or {MOST_BYTES >> 20} MB"
            )
        yield path, read()


def content_of(tree: Tree, wheels: tuple[Wheel, ...] = ()) -> str:
    """One hash for all files, and for what they need."""
    parts = [part for path in sorted(tree) for part in (path, tree[path])]
    return digest(*parts, *sorted(one.sha256 for one in wheels)).hex()
