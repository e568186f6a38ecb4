"""What must hold of a run's record, whatever happens to the run: nothing lost, nothing twice."""

import os
import random
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from processes import finish, start

from coevolve.core.errors import LedgerError
from coevolve.store import database
from coevolve.store.ledger import Ledger
from coevolve.store.payload import LARGE

ROUNDS, PHASES = 24, ("generate", "train", "evaluate", "gate")

RUN = """
import sys
from pathlib import Path
from coevolve.core.seeds import digest
from coevolve.store.ledger import Ledger

with Ledger.create(Path(sys.argv[1]), {"seed": 3}) as ledger, ledger.writing():
    print("ready", flush=True)
    last = ""
    for round in range(int(sys.argv[2])):
        for name in sys.argv[3].split(","):
            size = 70_000 if name == "evaluate" and round % 9 == 0 else 1
            mark = digest(round, name, last).hex()
            work = lambda: sys.stdin.readline() and {"mark": mark, "text": mark * size}
            last = ledger.phase(f"versions/{round:02d}", name, work)["mark"]
    ledger.note("done")
"""
"""Each phase takes one line of input, so that no run gets further than a test lets it."""


def go(process: subprocess.Popen[str], phases: int) -> subprocess.Popen[str]:
    """Let a run do so many phases more."""
    assert process.stdin is not None
    process.stdin.write("\n" * phases)
    process.stdin.flush()
    return process


def results(folder: Path) -> list[tuple[str, str, dict]]:
    with Ledger.open(folder) as ledger:
        return [(event.place, event.phase, event.payload) for event in ledger.events("phase")]


def test_a_run_killed_at_any_time_ends_like_one_that_was_not(tmp_path):
    arguments, every = (ROUNDS, ",".join(PHASES)), ROUNDS * len(PHASES)
    finish(go(start(RUN, tmp_path / "whole", *arguments), every))
    expected = results(tmp_path / "whole")
    assert len(expected) == every
    rng, folder, progress = random.Random(5), tmp_path / "killed", [0]
    # A busy machine, where a run gets nowhere before it is killed, is given more and more time.
    while len(progress) < 16 or progress[-1] <= 15:
        process = go(start(RUN, folder, *arguments), 5)
        time.sleep(rng.uniform(0, 0.008) * len(progress))
        finish(process, kill=True)
        found = results(folder)
        assert found == expected[: len(found)]
        progress.append(len(found))
    assert progress == sorted(progress)
    assert progress[-1] < every
    finish(go(start(RUN, folder, *arguments), every))
    assert results(folder) == expected
    with Ledger.open(folder) as ledger:
        assert ledger.state() == "done"
        assert ledger.mend() == []
        begun = Counter((event.place, event.phase) for event in ledger.events("began"))
        assert begun.keys() == {(place, name) for place, name, _ in expected}
        assert sum(begun.values()) <= len(expected) + len(progress)
        numbers = [event.number for event in ledger.events()]
        assert numbers == list(range(1, len(numbers) + 1))


def dies(action) -> None:
    """Do something in a forked process, which must be killed by it."""
    child = os.fork()
    if not child:
        try:
            action()
        finally:
            os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


def die(*_: object, **__: object):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("owner", "name", "call", "kept"),
    [
        (None, "work", 1, False),
        (os, "fsync", 1, False),  # the large payload is not yet on the disk
        (os, "replace", 1, False),  # ... or not yet under its name
        (Ledger, "event", 3, True),  # after the commit
        (os, "replace", 2, True),  # before the copy for people is there
        (Ledger, "find", 2, True),  # at the very end
    ],
)
def test_killed_at_each_step_of_a_phase(tmp_path, monkeypatch, owner, name, call, kept):
    folder, payload, calls = tmp_path / "run", {"text": "x" * LARGE}, []
    Ledger.create(folder, {}).close()

    def action():
        if owner is not None:
            original = getattr(owner, name)

            def step(*values, **options):
                calls.append(name)
                return die() if len(calls) == call else original(*values, **options)

            monkeypatch.setattr(owner, name, step)
        with Ledger.open(folder) as ledger:
            ledger.phase("versions/00", "train", die if owner is None else lambda: payload)

    dies(action)
    with Ledger.open(folder) as ledger:
        assert bool(ledger.events("phase")) == kept
        assert ledger.summary()["process"] is None
        done = []
        assert ledger.phase("versions/00", "train", lambda: done.append(1) or payload) == payload
        assert bool(done) != kept
        assert len(ledger.events("phase")) == 1
        assert (folder / "versions" / "00" / "train.json").is_file()


@pytest.mark.parametrize("statement", range(9))
def test_killed_while_it_is_created(tmp_path, monkeypatch, statement):
    def action():
        cut = (*database.SCHEMA[:statement], "SELECT die()", *database.SCHEMA[statement:])
        monkeypatch.setattr(database, "SCHEMA", cut)
        connect = sqlite3.connect

        def connected(*values, **options):
            connection = connect(*values, **options)
            connection.create_function("die", 0, die)
            return connection

        monkeypatch.setattr(sqlite3, "connect", connected)
        Ledger.create(tmp_path / "run", {"seed": 1})

    dies(action)
    with pytest.raises(LedgerError, match="the run never began; start it again"):
        Ledger.open(tmp_path / "run")
    with Ledger.create(tmp_path / "run", {"seed": 1}) as ledger:
        assert ledger.config == {"seed": 1}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET payload = '{}'",
        "DELETE FROM events WHERE number = 3",
        "INSERT OR REPLACE INTO events (number, time, kind, payload) VALUES (3, '', 'x', '{}')",
        "INSERT OR REPLACE INTO events (number, time, kind, payload, once) "
        "VALUES (4, '', 'phase', '{}', 'phase/versions/00/train')",
        "INSERT INTO events (number, time, kind, payload) VALUES (9, '', 'x', '{}')",
    ],
)
def test_nobody_changes_what_is_recorded(tmp_path, statement):
    with Ledger.create(tmp_path / "run", {}) as ledger:
        ledger.phase("versions/00", "train", lambda: {"a": 1})
        before = ledger.events()
        connection = sqlite3.connect(tmp_path / "run" / "ledger.db", isolation_level=None)
        with pytest.raises(sqlite3.IntegrityError, match="the ledger is append-only"):
            connection.execute(statement)
        connection.close()
        assert ledger.events() == before


FULL = """
import resource, sys
from pathlib import Path
from coevolve.core.errors import LedgerError
from coevolve.store.ledger import Ledger

size = int(sys.argv[2])
with Ledger.create(Path(sys.argv[1]), {}) as ledger:
    print("ready", flush=True)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    recorded = 0
    try:
        with ledger.writing():
            while True:
                ledger.phase(f"versions/{recorded:02d}", "train", lambda: {"text": "x" * size})
                recorded += 1
    except LedgerError as error:
        print(error)
    assert len(ledger.events("phase")) == recorded
    print(recorded)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    ledger.phase(f"versions/{recorded:02d}", "train", lambda: {"text": "y"})
"""


@pytest.mark.parametrize("size", [20_000, 2_000_000])
def test_a_full_disk_loses_nothing(tmp_path, size):
    message, recorded = finish(start(FULL, tmp_path / "run", size)).splitlines()
    assert f"then: coevolve resume {tmp_path / 'run'}" in message
    texts = [*["x" * size] * int(recorded), "y"]
    assert len(texts) > 3 or size > LARGE
    assert results(tmp_path / "run") == [
        (f"versions/{number:02d}", "train", {"text": text}) for number, text in enumerate(texts)
    ]
    with Ledger.open(tmp_path / "run") as ledger:
        assert ledger.mend() == []
