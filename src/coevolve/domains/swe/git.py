"""What is committed in a git repository, read without running anything of its own.

Invariant: git sees the objects of the repository and nothing else of it: no settings, filters,
attributes, hooks, remotes or helpers, which are programs that whoever made it could have chosen.
"""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Timer

from coevolve.core.errors import UserError

LISTED = 4 << 20
"""Bytes of a listing that are read."""
TIMEOUT_S = 60
DEEPEST = 5
"""Names that lead from HEAD to a commit."""


def committed(folder: Path, commit: str = "") -> Iterator[tuple[str, int, Callable[[], bytes]]]:
    """Every regular file of a commit, the last one if none is named: its path, its size, and what
    reads it. A commit is named by its whole hash."""
    home = home_of(folder)
    named, commit = bool(commit), commit or head_of(home, folder)
    with tempfile.TemporaryDirectory(prefix="coevolve-git-") as name:
        own = Path(name)
        (own / "refs").mkdir()
        (own / "objects" / "info").mkdir(parents=True)
        (own / "HEAD").write_text("ref: refs/heads/none\n")
        kind = "sha256" if len(commit) == 64 else "sha1"
        (own / "config").write_text(
            "[core]\n\trepositoryformatversion = 1\n\tbare = true\n"
            f"[extensions]\n\tobjectformat = {kind}\n"
        )
        (own / "objects" / "info" / "alternates").write_text(f"{shared(home) / 'objects'}\n")
        if named:
            try:
                git(own, "cat-file", "-e", f"{commit}^{{commit}}")
            except UserError:
                raise UserError(f"{folder} has no commit {commit}") from None
        listing = git(own, "ls-tree", "-r", "-l", "-z", commit)
        for line in listing.split(b"\0"):
            head, _, path = line.partition(b"\t")
            if head.startswith((b"100644 ", b"100755 ", b"100664 ")):
                _, _, mark, size = head.split()
                read = partial(git, own, "cat-file", "blob", mark.decode(), most=int(size))
                yield path.decode("utf-8", "replace"), int(size), read


def git(own: Path, *words: str, most: int = LISTED) -> bytes:
    """What git prints, with no settings but those of its own folder."""
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(own),
        "GIT_DIR": str(own),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
    try:
        with subprocess.Popen(
            ["git", "--no-pager", *words],
            cwd=own,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            assert process.stdout
            clock = Timer(TIMEOUT_S, process.kill)
            clock.start()
            data = process.stdout.read(most + 1)
            clock.cancel()
            if len(data) > most:
                process.kill()
                raise UserError(
                    f"a git repository with more than {most} bytes where it has {words[0]}"
                )
    except FileNotFoundError:
        raise UserError("reading a git repository needs git: apt-get install git") from None
    if process.returncode:
        raise UserError(f"a git repository cannot be read: git {words[0]} {words[-1]:.80} fails")
    return data


def home_of(folder: Path) -> Path:
    """Where a repository keeps its own files."""
    inner = folder / ".git"
    if inner.is_file():  # a work tree beside another one, or a submodule
        words = short(inner).partition("gitdir:")[2].strip()
        inner = folder / words
    for home in (inner, folder):
        if (home / "HEAD").is_file() and (shared(home) / "objects").is_dir():
            return home.resolve()
    raise UserError(f"{folder} is not a git repository with a commit: it has no folder .git")


def shared(home: Path) -> Path:
    """What several work trees have together."""
    common = home / "commondir"
    return (home / short(common)).resolve() if common.is_file() else home.resolve()


def head_of(home: Path, folder: Path) -> str:
    """The hash of the last commit."""
    found = short(home / "HEAD")
    for _ in range(DEEPEST):
        if not found.startswith("ref:"):
            break
        name = found.removeprefix("ref:").strip()
        if not name.startswith("refs/") or ".." in name.split("/"):
            break
        places = [place for base in (home, shared(home)) if (place := base / name).is_file()]
        found = short(places[0]) if places else packed(shared(home), name)
    if len(found) not in (40, 64) or not set(found) <= set("0123456789abcdef"):
        raise UserError(
            f"{folder} is not a git repository with a commit: HEAD leads to {found!r:.60}"
        )
    return found


def packed(home: Path, name: str) -> str:
    """A name in the list of those that have no file of their own."""
    place = home / "packed-refs"
    lines = short(place, 16 << 20).splitlines() if place.is_file() else []
    return next((line[: -len(name) - 1] for line in lines if line.endswith(f" {name}")), "nothing")


def short(path: Path, most: int = 4096) -> str:
    """The beginning of a file."""
    with path.open("rb") as file:
        return file.read(most).decode("utf-8", "replace").strip()
