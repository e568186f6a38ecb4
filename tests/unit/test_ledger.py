"""The record of a run: phases, notes, what it refuses, and what people read of it."""

import json
import sqlite3
import threading

import pytest

from coevolve.core.errors import LedgerError, UserError
from coevolve.store import approval, database
from coevolve.store.ledger import Ledger
from coevolve.store.payload import LARGE
from coevolve.store.watch import finished_phases

V0, V1 = "versions/00", "versions/01"
CONFIG = {"name": "lake", "seed": 7, "train": {"steps": 4, "rates": [1e-5, 2e-5]}}


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(tmp_path / "runs" / "first", CONFIG) as ledger:
        yield ledger


def never():
    raise AssertionError("the phase is recorded, and must not be done again")


def test_a_phase_is_done_once(ledger):
    result = ledger.phase(V0, "train", lambda: {"reward": 0.1, "sizes": (3, 4), "é\ud800": "\0"})
    assert result == {"reward": 0.1, "sizes": [3, 4], "é\ud800": "\0"}
    assert ledger.phase(V0, "train", never) == result
    with Ledger.open(ledger.folder) as again:
        assert again.phase(V0, "train", never) == result
        assert again.config == CONFIG
    assert [event.kind for event in ledger.events()] == ["created", "began", "phase"]
    event = ledger.last()
    assert (event.number, event.place, event.phase) == (3, V0, "train")
    assert event.seconds >= 0
    assert event.started <= event.time
    assert event.time.endswith("+00:00")


def test_events_by_kind_and_place(ledger):
    places = [V0, V1, "run"]
    for place in places:
        ledger.phase(place, "train", lambda: {})
        ledger.note("warning", place=place, text="warm")
    assert [event.place for event in ledger.events("phase")] == places
    assert [event.kind for event in ledger.events(place=V1)] == ["began", "phase", "warning"]
    assert [event.payload for event in ledger.events("warning", "run")] == [{"text": "warm"}]
    assert ledger.recorded(V1, "train") == {}
    assert ledger.recorded("versions/02", "train") is None
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
    for name in ("versions", "generations", "files"):
        (tmp_path / f"lost {name}" / name).mkdir(parents=True)
        with pytest.raises(UserError, match=f"holds {name} of a run without"):
            Ledger.create(tmp_path / f"lost {name}", {})
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
        ("PRAGMA user_version = 9", r"a newer coevolve, as version 9, .* reads version 2; use"),
        ("PRAGMA user_version = 1", r"an older coevolve, as version 1, .* reads version 2; begin"),
        ("PRAGMA application_id = 5", "is not a ledger"),
    ],
)
def test_other_databases_are_refused(ledger, change, message):
    ledger.close()
    connection = sqlite3.connect(ledger.folder / "ledger.db", isolation_level=None)
    connection.execute(change)
    connection.close()
    for open_it in (lambda: Ledger.open(ledger.folder), lambda: Ledger.create(ledger.folder, {})):
        with pytest.raises(LedgerError, match=message) as raised:
            open_it()
        assert "\n" not in str(raised.value)


def test_a_ledger_of_the_first_version_is_refused(tmp_path):
    connection = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE events (number INTEGER PRIMARY KEY, round INTEGER)")
    connection.execute(f"PRAGMA application_id = {database.APPLICATION}")
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    for options in ({}, {"broken": True}, {"read_only": True}):
        with pytest.raises(LedgerError, match="written by an older coevolve") as raised:
            Ledger.open(tmp_path, **options)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "place",
    [
        "", "/", "versions/", "/versions", "versions/3", "versions/03/", "versions/03/04", "../x",
        "Versions/03", "versions/x3", "versions/03\n", "versions\\03", "v1", "versions/٠٣", 3, None,
        "files", "files/01", "lock",
    ],
)  # fmt: skip
def test_names_of_places(ledger, place):
    with pytest.raises(LedgerError, match="a place is named like run or versions/03"):
        ledger.phase(place, "train", never)
    if place is not None:
        with pytest.raises(LedgerError, match="a place is named like run or versions/03"):
            ledger.note("warning", place=place)
    assert [event.kind for event in ledger.events()] == ["created"]


@pytest.mark.parametrize("name", ["../x", "", "Train", "train\n", "x" * 65, None])
def test_names_of_phases(ledger, name):
    with pytest.raises(LedgerError, match="a phase by up to 64 lower-case letters"):
        ledger.phase(V0, name, never)
    assert [event.kind for event in ledger.events()] == ["created"]


def test_notes_cannot_pass_for_phases(ledger):
    for kind in ("created", "began", "phase", "asked", "answered"):
        with pytest.raises(LedgerError, match="not as a note"):
            ledger.note(kind)


def test_mend_writes_what_people_read(ledger):
    ledger.phase(V0, "train", lambda: {"text": "häuser \ud800"})
    ledger.phase("generations/12", "gate", lambda: {"keep": True})
    train = ledger.folder / "versions" / "00" / "train.json"
    gate = ledger.folder / "generations" / "12" / "gate.json"
    before = {path: path.read_bytes() for path in (train, gate)}
    assert "häuser" in before[train].decode("utf-8")
    copy = json.loads(before[gate])
    assert (copy["place"], copy["phase"]) == ("generations/12", "gate")
    assert copy["payload"] == {"keep": True}
    assert ledger.mend() == []
    train.unlink()
    gate.write_bytes(before[gate][:20])
    assert ledger.mend() == [train, gate]
    assert {path: path.read_bytes() for path in (train, gate)} == before


def test_states(ledger):
    seen = [ledger.state()]
    with ledger.writing():
        ledger.phase(V0, "train", lambda: {"while": seen.append(ledger.state())})
        question = approval.ask(ledger, V0, "patch", {"patch": 1})
        seen.append(ledger.state())
        approval.answer(ledger, "approve")
        assert approval.wait(ledger, question).decision == "approve"
        seen.append(ledger.state())
        ledger.note("done")
        seen.append(ledger.state())
    assert seen == ["new", "running", "waiting", "running", "done"]
    approval.ask(ledger, V1, "patch", {"patch": 2})
    approval.answer(ledger, "abort")
    assert ledger.state() == "stopped"


@pytest.mark.parametrize(
    ("error", "state"), [(ValueError("odd"), "failed"), (KeyboardInterrupt(), "stopped")]
)
def test_a_run_that_breaks_off_says_so(ledger, error, state):
    def work():
        raise error

    with pytest.raises(type(error)), ledger.writing():
        ledger.phase("versions/02", "train", work)
    event = ledger.last()
    assert (event.kind, event.place, event.phase) == (state, "versions/02", "train")
    told = "interrupted" if state == "stopped" else type(error).__name__
    assert event.payload["error"].startswith(told)
    assert ledger.summary()["phase"] == "train"
    ledger.phase("versions/02", "train", lambda: {})
    assert ledger.state() == "running"


def test_summary(ledger):
    ledger.phase(V0, "train", lambda: {})
    ledger.phase(V0, "gate", lambda: {})
    ledger.phase(V1, "train", lambda: {})
    with ledger.writing():
        assert ledger.summary()["state"] == "running"
    found = ledger.summary()
    assert (found["run"], found["state"], found["place"]) == ("first", "broken off", V1)
    assert found["phase"] is None
    assert found["process"] is None
    assert list(found["seconds"]) == ["train", "gate"]
    assert found["phases"] == {"train": 2, "gate": 1}
    assert found["counts"] == {"created": 1, "began": 3, "phase": 3}
    assert found["first"] <= found["last"]
    assert len(json.dumps(found)) < 500


def test_the_test_split_does_not_move_a_run(ledger):
    assert (ledger.summary()["place"], ledger.summary()["phase"]) == (None, None)
    ledger.phase(V1, "gate", lambda: {})
    seen = []
    ledger.phase("run", "final", lambda: seen.append(ledger.summary()) or {})
    assert (seen[0]["place"], seen[0]["phase"]) == ("run", "final")
    assert (ledger.summary()["place"], ledger.summary()["phase"]) == (V1, None)
    assert (ledger.folder / "run" / "final.json").is_file()


def test_phases_are_watched_by_their_copies(ledger):
    ledger.phase("run", "base", lambda: {})
    ledger.phase("versions/10", "train", lambda: {})
    ledger.phase("versions/09", "result", lambda: {"text": "x" * LARGE})
    place = ledger.folder / "versions" / "10"
    copy = (place / "train.json").read_bytes()
    beside = {
        "job.json": b"[1, 2]", "other.json": copy, "torn.json": copy[:20], "odd.json": b"\xff",
        "result.json": b'{"payload": {}, "phase": "result"}', "stage/train.json": copy,
    }  # fmt: skip
    for name, data in beside.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_bytes(data)
    (ledger.folder / "twins" / "01").mkdir(parents=True)
    (ledger.folder / "twins" / "01" / "train.json").write_bytes(copy)
    known: set = set()
    found = [(one.place, one.phase) for one in finished_phases(ledger.folder, known)]
    assert found == [("run", "base"), ("versions/10", "train"), ("versions/09", "result")]
    assert finished_phases(ledger.folder, known) == []
    ledger.phase("versions/10", "torn", lambda: {})
    assert [one.phase for one in finished_phases(ledger.folder, known)] == ["torn"]


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


def test_the_folder_of_a_stage_gets_the_command_to_continue_with(tmp_path):
    (tmp_path / "stage.json").touch()
    with pytest.raises(LedgerError, match="repeat its `coevolve train`"):
        Ledger.open(tmp_path)
