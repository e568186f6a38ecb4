"""Where repositories come from: sdists of the registry by name and version, and git repositories.

A source gives a tree: every file's path and bytes, without any history.
"""

import io
import subprocess
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

from coevolve.core.errors import UserError
from coevolve.core.rollout import Value
from coevolve.core.seeds import digest
from coevolve.domains.swe.fetch import fetch

Tree = dict[str, bytes]
"""A repository as a value: paths with slashes, below its root."""
MOST_FILES = 4_000
MOST_BYTES = 24 << 20
BROKEN = (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError, ValueError)


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
        return of_repository(source)
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


def of_repository(source: Source) -> Tree:
    """What is committed in a git repository."""
    words = ["git", "-C", source.folder, "archive", "--format=tar", "HEAD"]
    try:
        done = subprocess.run(words, capture_output=True, check=False)
    except FileNotFoundError:
        raise UserError(f"reading {source.folder} needs git: apt-get install git") from None
    if done.returncode:
        reason = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        raise UserError(f"{source.folder} is no git repository with a commit: {reason}")
    return dict(bounded(tar_members(done.stdout), source.name))


def tar_members(data: bytes) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None:
                yield member.name, file.read()


def zip_members(data: bytes) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in archive.infolist():
            if not member.is_dir():
                yield member.filename, archive.read(member)


def bounded(members: Iterator[tuple[str, bytes]], name: str) -> Iterator[tuple[str, bytes]]:
    """Files that can be put below a folder, and not too much of them."""
    count = size = 0
    for path, data in members:
        parts = PurePosixPath(path).parts
        if path.startswith("/") or ".." in parts or ".git" in parts or not path.isprintable():
            continue
        count, size = count + 1, size + len(data)
        if count > MOST_FILES or size > MOST_BYTES:
            raise UserError(
                f"{name} is too large: more than {MOST_FILES} files or {MOST_BYTES >> 20} MB"
            )
        yield path, data


def content_of(tree: Tree) -> str:
    """One hash for all files."""
    parts = (part for path in sorted(tree) for part in (path, tree[path]))
    return digest(*parts).hex()
