"""Disks that are full, read-only or gone, and clocks that jump: one line, nothing lost, goes on."""

import errno
import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pretended import SMALL, make_run

from coevolve.core import disk
from coevolve.core.disk import disk_trouble
from coevolve.core.errors import CoevolveError, EngineError, UserError
from coevolve.dashboard.record import read_record
from coevolve.loop.loop import run_loop
from coevolve.loop.run import Run
from coevolve.store import ledger as ledgers
from coevolve.store.fsck import fsck
from coevolve.store.lineage import Lineage

SCRIPTS = ("prioritised", "random")
TARGET = {"target": {"dev": 8, "gate": 12, "knobs": SMALL}}


def begun(folder: Path) -> Run:
    return make_run(folder, scripts=SCRIPTS, **TARGET)


def decided(lineage: Lineage) -> Any:
    return [(one.verdict, one.words, one.harness) for one in lineage.versions]


def go(folder: Path) -> Any:
    """The decisions of a run, or the line that it ends with."""
    try:
        run = begun(folder)
        try:
            return decided(run_loop(run))
        finally:
            run.ledger.close()
    except CoevolveError as error:
        return str(error)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("right") / "run"
    go(folder)
    return folder


@pytest.fixture(scope="module")
def right(done: Path) -> Any:
    return go(done)


def one_line(said: Any, folder: Path) -> bool:
    """Whether somebody who reads it knows where, and how to go on."""
    return isinstance(said, str) and "\n" not in said and str(folder) in said


def failing(error: int, call: int, real: Callable[..., Any]) -> Callable[..., Any]:
    """A call of the system that fails from the nth time on."""
    count = itertools.count()

    def act(*given: Any, **named: Any) -> Any:
        if next(count) >= call:
            raise OSError(error, os.strerror(error), str(given[0]))
        return real(*given, **named)

    return act


ERRORS = [
    "ENOSPC", "EIO",
    *(pytest.param(one, marks=pytest.mark.slow) for one in ("EDQUOT", "EROFS", "ESTALE", "EACCES")),
]  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize(("which", "call"), [("fsync", 0), ("fsync", 5), ("fsync", 21),
                                             ("replace", 3), ("replace", 12)])  # fmt: skip
def test_a_disk_that_fails_anywhere_is_one_line_and_nothing_is_lost(
    tmp_path, monkeypatch, held, right, name, which, call
):
    folder = tmp_path / "run"
    with monkeypatch.context() as broken:
        broken.setattr(os, which, failing(getattr(errno, name), call, getattr(os, which)))
        said = go(folder)
    held("disks that fail", one_line(said, folder) and "coevolve resume" in said, said)
    after = go(folder)
    held("going on after the disk", after == right and not fsck(folder).faults, after)


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A file system in memory that can be mounted again with other options."""
    place = tmp_path / "disk"
    place.mkdir()
    mine = []

    def mount(options: str) -> Path:
        again = "remount," if mine else ""
        command = ["mount", "-t", "tmpfs", "-o", again + options, "tmpfs", str(place)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            pytest.skip(f"no file system can be mounted here: {error}")
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
        mine.append(options)
        return place

    yield mount
    if mine:
        subprocess.run(["umount", "-l", str(place)], check=False)


@pytest.mark.parametrize("size", ["64k", "200k", "400k"])
def test_a_full_disk(mounted, monkeypatch, held, right, size):
    monkeypatch.setattr(disk, "free", lambda place: 1 << 40)  # nobody sees it coming
    folder = mounted(f"size={size}") / "run"
    said = go(folder)
    held("full disks", one_line(said, folder), said)
    mounted("size=64m")
    after = go(folder)
    held("going on after the disk", after == right and not fsck(folder).faults, after)


def test_a_disk_that_becomes_read_only(mounted, held, right):
    folder = mounted("size=64m") / "run"
    run = begun(folder)

    def work(folders: Any) -> None:
        raise EngineError("broken off")

    run.work = work
    with pytest.raises(EngineError):
        run_loop(run)
    run.ledger.close()
    mounted("size=64m,ro")
    said = go(folder)
    held("read-only disks", one_line(said, folder) and "read-only" in said, said)
    mounted("size=64m,rw")
    held("going on after the disk", go(folder) == right)


def test_a_folder_that_vanishes_and_comes_back(tmp_path, held, right):
    folder = tmp_path / "run"
    run = begun(folder)

    def work(folders: Any) -> None:
        folder.rename(tmp_path / "away")
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(folders[0]))

    run.work = work
    with pytest.raises(CoevolveError) as got:
        run_loop(run)
    run.ledger.close()
    held("disks that vanish", one_line(str(got.value), folder), got.value)
    assert not folder.exists() or not (folder / "ledger.db").exists()
    if folder.exists():
        os.removedirs(folder)
    (tmp_path / "away").rename(folder)
    held("going on after the disk", go(folder) == right)


@pytest.mark.parametrize("free", [0, 1, 1 << 20, (1 << 24) - 1])
def test_a_stage_is_not_begun_without_room(tmp_path, monkeypatch, held, right, free):
    folder = tmp_path / "run"
    with monkeypatch.context() as tight:
        tight.setattr(disk, "free", lambda place: free)
        said = go(folder)
    safe = one_line(said, folder) and "MiB" in said and f"coevolve resume {folder}" in said
    held("room is looked for first", safe, said)
    assert not list(folder.glob("versions/*/stage"))
    held("going on after the disk", go(folder) == right)


CLOCKS = {
    "stands still": lambda n: "2026-01-01T00:00:00.000+00:00",
    "goes backwards": lambda n: f"2026-01-01T00:{59 - n % 60:02d}:00.000+00:00",
    "jumps to the future": lambda n: f"{2026 + 900 * (n % 2)}-01-01T00:00:00.000+00:00",
    "was never set": lambda n: "1970-01-01T00:00:00.000+00:00",
    "summer time": lambda n: f"2026-10-25T0{2 + n % 2}:30:00.000+00:00",
    "before all clocks": lambda n: "0001-01-01T00:00:00.000+00:00",
}


@pytest.mark.parametrize("clock", CLOCKS)
def test_clocks_that_jump_decide_nothing(tmp_path, monkeypatch, held, right, clock):
    count = itertools.count()
    monkeypatch.setattr(ledgers, "now", lambda: CLOCKS[clock](next(count)))
    found = go(tmp_path / "run")
    held("clocks", found == right, found)
    held("clocks", go(tmp_path / "run") == right and not fsck(tmp_path / "run").faults)


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


FULL = OSError(errno.ENOSPC, "No space left on device", "/x/y")
SAID = {
    "plain": (FULL, True),
    "wrapped": (caused(EngineError("training failed"), FULL), True),
    "twice": (caused(RuntimeError("x"), caused(EngineError("y"), FULL)), True),
    "safetensors": (RuntimeError("I/O error: No space left on device (os error 28)"), True),
    "arrow": (OSError("Error writing bytes to file. Detail: [errno 28] No space left"), True),
    "user": (UserError("cannot write p: [Errno 28] No space left on device"), True),
    "quota": (OSError(errno.EDQUOT, "Disk quota exceeded", "/x"), True),
    "too large": (OSError(errno.EFBIG, "File too large", "/x"), True),
    "read-only": (OSError(errno.EROFS, "Read-only file system", "/x"), True),
    "stale": (OSError(errno.ESTALE, "Stale file handle", "/x"), True),
    "a network": (OSError(errno.ETIMEDOUT, "Connection timed out"), False),
    "a network in words": (UserError("[Errno 110] Connection timed out"), False),
    "a peer": (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), False),
    "a mistake": (ValueError("errno"), False),
    "no such file": (FileNotFoundError(errno.ENOENT, "No such file", "/x"), False),
}


@pytest.mark.parametrize("what", SAID)
def test_what_is_of_the_disk_and_what_is_not(held, what):
    error, expected = SAID[what]
    line = disk_trouble(error)
    held("errors of the disk", bool(line) == expected and "\n" not in line, line)


def test_what_was_handled_is_not_the_cause(held):
    try:
        try:
            raise FULL
        except OSError:
            raise UserError("an own word") from None
    except UserError as error:
        held("errors of the disk", not disk_trouble(error))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("command", [["domains", "--json"], ["--version"]])
def test_a_full_output_is_one_line(held, command):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "coevolve", *command],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=300, check=False,
        )  # fmt: skip
    safe = done.returncode == 2 and done.stderr.count("\n") == 1
    held("full disks", safe, f"{done.returncode}: {done.stderr}")


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """What takes longer is broken off."""

    def late(*_: object) -> None:
        raise TimeoutError(f"still waiting after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


WAITING = [
    "ledger.db", "base/gate/part-00000.parquet", "base/gate/evaluation.json",
    "versions/00/dev/part-00000.parquet", "versions/00/gate/evaluation.json",
    "versions/00/gate.json", "versions/00/job.json", "versions/00/result.json", "run/begin.json",
]  # fmt: skip


@pytest.mark.parametrize("name", WAITING)
def test_a_file_that_keeps_readers_waiting(tmp_path, held, right, done, name):
    folder = tmp_path / "run"
    shutil.copytree(done, folder)
    whole = (folder / name).read_bytes()
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with within(60):
        found = fsck(folder)
        said = go(folder)
        read_record(folder)
    known = said == right or (isinstance(said, str) and name in said and "\n" not in said)
    held("files that never answer", known and (found.faults or said == right), said)
    (folder / name).unlink()
    (folder / name).write_bytes(whole)
    held("going on after the disk", go(folder) == right)


def test_a_file_system_that_does_not_answer_is_spoken_of(tmp_path, monkeypatch, held):
    hung, told, said = threading.Event(), threading.Event(), []

    def say(line: str) -> None:
        said.append(line)
        told.set()

    monkeypatch.setattr(disk, "settle", lambda place: hung.wait())
    with disk.answering(tmp_path, say, 0.05):
        told.wait(60)
    hung.set()
    held("files that never answer", len(said) == 1 and one_line(said[0], tmp_path), said)
