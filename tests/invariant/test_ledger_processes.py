"""What must hold when several processes share a run: one writes, anyone reads, a person answers."""

import os
import signal
import time
from pathlib import Path

import pytest
from processes import finish, start

from coevolve.core.errors import LedgerError, UserError
from coevolve.store import approval, files
from coevolve.store.ledger import Ledger

HOLD = """
import os, sys, time
from pathlib import Path
from coevolve.store.ledger import Ledger

with Ledger.create(Path(sys.argv[1]), {}) as ledger, ledger.writing():
    if sys.argv[2] == "fork" and os.fork() == 0:
        time.sleep(20)
        os._exit(0)
    print("ready", flush=True)
    for number in range(10**9):
        ledger.note("tick", number=number, text="x" * 2000)
        if not number % 50:
            time.sleep(0.01)
"""


def test_one_writes_and_others_read(tmp_path):
    process = start(HOLD, tmp_path / "run", "alone")
    with Ledger.open(tmp_path / "run") as ledger:
        with pytest.raises(UserError, match=f"run run is going on in process {process.pid};"):
            ledger.phase("versions/00", "train", dict)
        assert ledger.summary()["process"] == process.pid
        seen, slowest = [0], 0.0
        while len(seen) < 20 or seen[-1] == seen[1]:
            begun = time.monotonic()
            numbers = [event.payload["number"] for event in ledger.events("tick")]
            slowest = max(slowest, time.monotonic() - begun)
            assert numbers == list(range(len(numbers)))
            assert len(numbers) >= seen[-1]
            seen.append(len(numbers))
        assert slowest < 30
        finish(process, kill=True)
        assert ledger.summary()["process"] is None
        assert ledger.phase("versions/00", "train", lambda: {"mine": True}) == {"mine": True}


def test_two_ledgers_in_one_process_are_two_writers(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PATIENCE_S", 0)
    with Ledger.create(tmp_path / "run", {}) as one, Ledger.open(tmp_path / "run") as other:
        with one.writing(), one.writing(), pytest.raises(UserError, match=f"{os.getpid()}"):
            other.phase("versions/00", "train", dict)
        other.phase("versions/00", "train", dict)


def test_a_forked_process_does_not_keep_a_dead_run_alive(tmp_path):
    process = start(HOLD, tmp_path / "run", "fork")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.kill()
    process.wait(timeout=120)
    try:
        with Ledger.open(tmp_path / "run") as ledger:
            assert ledger.phase("versions/00", "train", lambda: {"on": 1}) == {"on": 1}
    finally:
        os.kill(int(children[0]), signal.SIGKILL)
        process.communicate(timeout=120)


CREATE = """
import sys
from pathlib import Path
from coevolve.store.ledger import Ledger

print("ready", flush=True)
sys.stdin.readline()
Ledger.create(Path(sys.argv[1]), {"seed": 1}).close()
"""


def test_many_create_the_same_run_at_once(tmp_path):
    processes = [start(CREATE, tmp_path / "run") for _ in range(4)]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        finish(process)
    with Ledger.open(tmp_path / "run") as ledger:
        assert [event.kind for event in ledger.events()] == ["created"]


ASK = """
import sys
from pathlib import Path
from coevolve.store import approval
from coevolve.store.ledger import Ledger

with Ledger.create(Path(sys.argv[1]), {}) as ledger, ledger.writing():
    patch = 1
    while True:
        question = approval.ask(ledger, "run", "patch", {"patch": patch})
        print("ready", flush=True)
        answer = approval.wait(ledger, question, poll_s=0.02)
        if answer.decision != "revise":
            break
        patch += 1
    print(patch, answer.decision, answer.note)
"""


def until(condition) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_approvals_across_processes_and_kills(tmp_path):
    process = start(ASK, tmp_path / "run")
    with Ledger.open(tmp_path / "run") as ledger:
        assert approval.waiting(ledger).question == {"patch": 1}
        assert ledger.state() == "waiting"
        finish(process, kill=True)
        assert approval.answer(ledger, "revise", "smaller").decision == "revise"
        with pytest.raises(UserError, match="nothing waits for an answer in run run"):
            approval.answer(ledger, "approve")
        process = start(ASK, tmp_path / "run")
        until(lambda: approval.waiting(ledger) is not None)
        assert approval.waiting(ledger).question == {"patch": 2}
        finish(process, kill=True)
        process = start(ASK, tmp_path / "run")
        approval.answer(ledger, "approve", "good")
        assert finish(process).splitlines()[-1] == "2 approve good"
        assert finish(start(ASK, tmp_path / "run")).splitlines()[-1] == "2 approve good"
        assert len(ledger.events("asked")) == 2
        assert [e.payload["decision"] for e in ledger.events("answered")] == ["revise", "approve"]


def test_questions(tmp_path):
    with Ledger.create(tmp_path / "run", {}) as ledger:
        with pytest.raises(UserError, match="unknown decision 'yes'; take one of approve, revise"):
            approval.answer(ledger, "yes")
        question = approval.ask(ledger, "versions/02", "patch", {"a": 1, "b": (2, 3)})
        assert approval.ask(ledger, "versions/02", "patch", {"b": [2, 3], "a": 1}) == question
        assert approval.waiting(ledger) == question
        with pytest.raises(UserError, match=r"an answer to question 7, but to 2; look"):
            approval.answer(ledger, "approve", number=7)
        assert approval.waiting(ledger) == question
        with pytest.raises(LedgerError, match=r"question 2 of .* \(versions/02, patch\) is still"):
            approval.ask(ledger, "versions/02", "patch", {"a": 2})
        with (
            pytest.raises(UserError, match=r"question 2 .*\(versions/02, patch\)"),
            ledger.writing(),
        ):
            approval.wait(ledger, question, timeout_s=0.01)
        assert ledger.state() == "waiting"
        with Ledger.open(tmp_path / "run") as terminal:
            given = approval.answer(terminal, "approve")
        assert approval.wait(ledger, question, timeout_s=0) == given
        assert approval.waiting(ledger) is None
