"""The record of a run: phases, notes, what it refuses, and what people read of it."""

import json
import sqlite3
import threading

import pytest

from coevolve.core.errors import LedgerError, UserError
from coevolve.ledger import approval
from coevolve.ledger.ledger import Ledger

CONFIG = {"name": "lake", "seed": 7, "train": {"steps": 4, "rates": [1e-5, 2e-5]}}


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(tmp_path / "runs" / "first", CONFIG) as ledger:
        yield ledger


def never():
    raise AssertionError("the phase is recorded, and must not be done again")


def test_a_phase_is_done_once(ledger):
    result = ledger.phase(0, "train", lambda: {"reward": 0.1, "sizes": (3, 4), "é\ud800": "\0"})
    assert result == {"reward": 0.1, "sizes": [3, 4], "é\ud800": "\0"}
    assert ledger.phase(0, "train", never) == result
    with Ledger.open(ledger.folder) as again:
        assert again.phase(0, "train", never) == result
        assert again.config == CONFIG
    assert [event.kind for event in ledger.events()] == ["created", "began", "phase"]
    event = ledger.last()
    assert (event.number, event.round, event.phase) == (3, 0, "train")
    assert event.seconds >= 0
    assert event.started <= event.time
    assert event.time.endswith("+00:00")


def test_events_by_kind_and_round(ledger):
    for round in range(3):
        ledger.phase(round, "train", lambda: {})
        ledger.note("warning", round=round, text="warm")
    assert [event.round for event in ledger.events("phase")] == [0, 1, 2]
    assert [event.kind for event in ledger.events(round=1)] == ["began", "phase", "warning"]
    assert [event.payload for event in ledger.events("warning", 2)] == [{"text": "warm"}]
    assert [event.number for event in ledger.events()] == list(range(1, 11))


def test_the_same_config_reopens_and_another_is_refused(ledger):
    Ledger.create(ledger.folder, dict(reversed(CONFIG.items()))).close()
    other = {**CONFIG, "train": {"steps": 5, "rates": [1e-5, 2e-5]}, "extra": True}
    with pytest.raises(
        UserError, match=r"another run: train\.steps 4, not 5; extra absent, not true"
    ):
        Ledger.create(ledger.folder, other)
    assert len(ledger.events()) == 1


def test_what_is_no_run(tmp_path):
    with pytest.raises(LedgerError, match=r"no run in .*nowhere: .*ledger\.db is missing"):
        Ledger.open(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "lost" / "rounds").mkdir(parents=True)
    with pytest.raises(UserError, match="holds rounds of a run without"):
        Ledger.create(tmp_path / "lost", {})
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot make the folder"):
        Ledger.create(tmp_path / "file", {})
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "ledger.db").write_bytes(b"")
    with pytest.raises(LedgerError, match="the run never began; start it again"):
        Ledger.open(tmp_path / "begun")
    Ledger.create(tmp_path / "begun", {}).close()
    assert Ledger.open(tmp_path / "begun").state() == "new"


def test_damage_is_named(ledger):
    for number in range(200):
        ledger.note("warning", text="x" * 500, number=number)
    ledger.close()
    file = ledger.folder / "ledger.db"
    whole = file.read_bytes()
    spoiled = {
        "no database": b"these are no pages" * 1000,
        "torn": whole[: len(whole) // 2],
        "page": whole[:8192] + b"\x5a" * 8192 + whole[16384:],
    }
    for data in spoiled.values():
        file.write_bytes(data)
        with pytest.raises(LedgerError, match=r"ledger\.db is damaged .*put back a copy"):
            Ledger.open(ledger.folder)
    file.write_bytes(whole)
    with Ledger.open(ledger.folder) as again:
        assert len(again.events("warning")) == 200


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("PRAGMA user_version = 9", "version 9, and this program reads version 1"),
        ("PRAGMA application_id = 5", "is no ledger"),
    ],
)
def test_other_databases_are_refused(ledger, change, message):
    ledger.close()
    connection = sqlite3.connect(ledger.folder / "ledger.db", isolation_level=None)
    connection.execute(change)
    connection.close()
    for open_it in (lambda: Ledger.open(ledger.folder), lambda: Ledger.create(ledger.folder, {})):
        with pytest.raises(LedgerError, match=message):
            open_it()


@pytest.mark.parametrize(("round", "name"), [(-1, "train"), (0, "../x"), (0, ""), (0, "Train")])
def test_names_of_phases(ledger, round, name):
    with pytest.raises(LedgerError, match="rounds count from 0"):
        ledger.phase(round, name, never)


def test_notes_cannot_pass_for_phases(ledger):
    for kind in ("created", "began", "phase", "asked", "answered"):
        with pytest.raises(LedgerError, match="not as a note"):
            ledger.note(kind)


def test_mend_writes_what_people_read(ledger):
    ledger.phase(0, "train", lambda: {"text": "häuser \ud800"})
    ledger.phase(12, "gate", lambda: {"keep": True})
    train = ledger.folder / "rounds" / "00" / "train.json"
    gate = ledger.folder / "rounds" / "12" / "gate.json"
    before = {path: path.read_bytes() for path in (train, gate)}
    assert "häuser" in before[train].decode("utf-8")
    assert json.loads(before[gate])["payload"] == {"keep": True}
    assert ledger.mend() == []
    train.unlink()
    gate.write_bytes(before[gate][:20])
    assert ledger.mend() == [train, gate]
    assert {path: path.read_bytes() for path in (train, gate)} == before


def test_states(ledger):
    seen = [ledger.state()]
    with ledger.writing():
        ledger.phase(0, "train", lambda: {"while": seen.append(ledger.state())})
        question = approval.ask(ledger, 0, "patch", {"patch": 1})
        seen.append(ledger.state())
        approval.answer(ledger, "approve")
        assert approval.wait(ledger, question).decision == "approve"
        seen.append(ledger.state())
        ledger.note("done")
        seen.append(ledger.state())
    assert seen == ["new", "running", "waiting", "running", "done"]
    approval.ask(ledger, 1, "patch", {"patch": 2})
    approval.answer(ledger, "abort")
    assert ledger.state() == "stopped"


@pytest.mark.parametrize(
    ("error", "state"), [(ValueError("odd"), "failed"), (KeyboardInterrupt(), "stopped")]
)
def test_a_run_that_breaks_off_says_so(ledger, error, state):
    def work():
        raise error

    with pytest.raises(type(error)), ledger.writing():
        ledger.phase(2, "train", work)
    event = ledger.last()
    assert (event.kind, event.round, event.phase) == (state, 2, "train")
    assert event.payload["error"].startswith(type(error).__name__)
    assert ledger.summary()["phase"] == "train"
    ledger.phase(2, "train", lambda: {})
    assert ledger.state() == "running"


def test_summary(ledger):
    ledger.phase(0, "train", lambda: {})
    ledger.phase(0, "gate", lambda: {})
    ledger.phase(1, "train", lambda: {})
    with ledger.writing():
        assert ledger.summary()["state"] == "running"
    found = ledger.summary()
    assert (found["run"], found["state"], found["round"]) == ("first", "broken off", 1)
    assert found["phase"] is None
    assert found["process"] is None
    assert list(found["seconds"]) == ["train", "gate"]
    assert found["phases"] == {"train": 2, "gate": 1}
    assert found["counts"] == {"created": 1, "began": 3, "phase": 3}
    assert found["first"] <= found["last"]
    assert len(json.dumps(found)) < 500


def test_threads_share_a_ledger(ledger):
    def notes():
        for number in range(20):
            ledger.note("warning", number=number)

    threads = [threading.Thread(target=notes) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger.events("warning")) == 80
