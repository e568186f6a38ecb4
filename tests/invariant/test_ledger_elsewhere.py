"""What must hold of a run wherever its folder lies: moved, copied, or where nobody can write."""

import os
import shutil
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import finish, start

from coevolve.core.errors import LedgerError
from coevolve.store import approval
from coevolve.store.ledger import Ledger
from coevolve.store.payload import LARGE

NOBODY, CANNOT = 65534, 77
READ_ONLY = "cannot write .*: the folder is read-only; give write access to it, or copy it"

KILLED = """
import sys, time
from pathlib import Path
from coevolve.store.ledger import Ledger

ledger = Ledger.create(Path(sys.argv[1]), {"seed": 1})
ledger.phase("versions/00", "train", lambda: {"text": "x" * 2_000_000, "good": 1})
ledger.note("done")
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture(params=["closed", "killed", "killed, -shm lost"])
def run(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A run that ended well, or whose last events are not yet in the database itself."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        folder = Path(name) / "run"
        process = start(KILLED, folder)
        finish(process, kill=True)
        if request.param == "closed":
            Ledger.open(folder).close()
            assert not (folder / "ledger.db-wal").exists()
        else:
            assert (folder / "ledger.db-wal").stat().st_size
        if request.param == "killed, -shm lost":
            (folder / "ledger.db-shm").unlink()
        yield folder


def check_read_only(ledger: Ledger) -> None:
    """All can be read, and nothing written."""
    assert ledger.read_only
    assert [event.kind for event in ledger.events()] == ["created", "began", "phase", "done"]
    assert ledger.config == {"seed": 1}
    assert len(ledger.recorded("versions/00", "train")["text"]) == 2_000_000
    assert ledger.members("good") == [(3, 1)]
    assert ledger.faults() == []
    assert ledger.summary()["state"] == "done"
    assert ledger.summary()["process"] is None
    assert ledger.mend() == []
    for write in (
        lambda: ledger.note("warning"),
        lambda: ledger.note("warning", text="x" * (LARGE + 1)),
        lambda: ledger.phase("versions/01", "train", dict),
        lambda: approval.ask(ledger, "run", "patch", {}),
        lambda: ledger.writing().__enter__(),
    ):
        with pytest.raises(LedgerError, match=READ_ONLY):
            write()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_ledger_opened_for_reading_leaves_everything_as_it_is(run):
    before, copy = contents(run), run / "versions" / "00" / "train.json"
    with Ledger.open(run, read_only=True) as ledger:
        check_read_only(ledger)
        copy.unlink()
        with pytest.raises(LedgerError, match=READ_ONLY):
            ledger.mend()
    after = contents(run)
    # What processes share of the file in memory is no part of the record.
    shared = str(run / "ledger.db-shm")
    assert {**after, str(copy): before[str(copy)], shared: b""} == {**before, shared: b""}


def as_nobody(action: Callable[[], None]) -> None:
    """Do something as a user who has no rights; who is no root has none on a read-only folder."""
    child = os.fork()
    if not child:
        code = 1
        try:
            if os.getuid() == 0:
                code = CANNOT
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                code = 1
            action()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == CANNOT:
        pytest.skip("there is no other user to be")
    assert code == 0


@pytest.fixture
def locked_up(run: Path) -> Iterator[Path]:
    """The run in a folder that its user cannot write to."""
    folders = [run, *(path for path in run.rglob("*") if path.is_dir())]
    files = [path for path in run.rglob("*") if path.is_file()]
    for path in files:
        path.chmod(0o444)
    for path in folders:
        path.chmod(0o555)
    yield run
    for path in folders:
        path.chmod(0o755)


def test_a_folder_without_write_access_is_read(locked_up):
    before = contents(locked_up)

    def action() -> None:
        for options in ({}, {"broken": True}, {"read_only": True}):
            with Ledger.open(locked_up, **options) as ledger:
                check_read_only(ledger)
        with Ledger.create(locked_up, {"seed": 1}) as ledger:
            check_read_only(ledger)
        with pytest.raises(LedgerError, match=r"cannot open .*; give access to the file and its"):
            Ledger.create(locked_up / "versions", {})

    as_nobody(action)
    assert contents(locked_up) == before


def test_a_folder_without_any_access_says_so(run):
    run.chmod(0)
    try:
        as_nobody(lambda: refused(run))
    finally:
        run.chmod(0o755)


def refused(run: Path) -> None:
    with pytest.raises(LedgerError, match=r"cannot read .*ledger\.db: Permission denied; give"):
        Ledger.open(run)


def test_a_read_only_ledger_sees_a_run_that_goes_on(tmp_path):
    with Ledger.create(tmp_path / "run", {}) as ledger:
        ledger.note("tick")
        with Ledger.open(tmp_path / "run", read_only=True) as reader:
            assert reader.last().kind == "tick"
            ledger.note("tock")
            assert reader.last().kind == "tock"


@pytest.mark.parametrize("way", ["moved", "copied"])
def test_a_run_goes_on_elsewhere(run, tmp_path, way):
    there = tmp_path / "new # home?" / "other"
    there.parent.mkdir()
    (shutil.move if way == "moved" else shutil.copytree)(run, there)
    with Ledger.open(there, read_only=True) as ledger:
        check_read_only(ledger)
    with Ledger.create(there, {"seed": 1}) as ledger:
        assert ledger.faults() == []
        assert ledger.mend() == []
        assert len(ledger.phase("versions/00", "train", dict)["text"]) == 2_000_000
        assert ledger.phase("versions/01", "train", lambda: {"on": 1}) == {"on": 1}
    assert (there / "versions" / "01" / "train.json").is_file()
    for name, data in contents(there).items():
        for root in (run.parent, tmp_path):
            assert str(root).encode() not in data, name


def test_a_lock_of_a_copied_run_is_nobodys(tmp_path):
    script = KILLED.replace("print(", "held = ledger.writing(); held.__enter__(); print(")
    process = start(script, tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    try:
        with Ledger.open(tmp_path / "run") as ledger:
            assert ledger.summary()["process"] == process.pid
        with Ledger.open(tmp_path / "copy") as ledger:
            assert ledger.summary()["process"] is None
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=120)
