"""What must hold of a record that somebody changed: it is named, and never used."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.core.errors import LedgerError
from coevolve.store import approval
from coevolve.store.chain import COLUMNS, link
from coevolve.store.ledger import Ledger
from coevolve.store.payload import LARGE

LAST = 8
"""The number of the last event of `whole`; event 5 is the phase `gate` of versions/03."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chain") / "run"
    with Ledger.create(folder, {"seed": 3}) as ledger:
        ledger.phase("run", "base", lambda: {"rate": 0.25})
        ledger.phase("versions/03", "gate", lambda: {"keep": True})
        ledger.note("warning", text="warm")
        ledger.phase("versions/03", "evaluate", lambda: {"text": "x" * LARGE, "keep": 1})
        assert ledger.faults() == []
    return folder


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


@contextmanager
def unguarded(folder: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a ledger without its triggers."""
    connection = sqlite3.connect(folder / "ledger.db", isolation_level=None)
    try:
        for name in ("nothing_changes", "nothing_goes", "nothing_is_replaced"):
            connection.execute(f"DROP TRIGGER IF EXISTS {name}")
        yield connection
    finally:
        connection.close()


def change(folder: Path, *statements: str) -> None:
    with unguarded(folder) as connection:
        for statement in statements:
            connection.execute(statement)


def swap(one: int, other: int) -> tuple[str, ...]:
    """Give two events each other's number."""
    return tuple(
        f"UPDATE events SET number = {new} WHERE number = {old}"
        for old, new in ((one, 99), (other, one), (99, other))
    )


CHANGES = {
    "payload": (("UPDATE events SET payload = '{\"keep\": false}' WHERE number = 5",), 5),
    "time": (("UPDATE events SET time = '2020-01-01T00:00:00.000+00:00' WHERE number = 5",), 5),
    "seconds": (("UPDATE events SET seconds = seconds + 1e-9 WHERE number = 5",), 5),
    "file": (("UPDATE events SET file = 'f00d' WHERE number = 8",), 8),
    "the configuration": (("UPDATE events SET payload = '{}' WHERE number = 1",), 1),
    "bytes for text": (("UPDATE events SET kind = CAST(kind AS BLOB) WHERE number = 5",), 5),
    "no UTF-8": (("UPDATE events SET kind = CAST(x'ff0a' AS TEXT) WHERE number = 5",), 5),
    "chain": (("UPDATE events SET chain = 'a' WHERE number = 5",), 5),
    "one removed": (("DELETE FROM events WHERE number = 4",), 4),
    "the first removed": (("DELETE FROM events WHERE number = 1",), 1),
    "all removed": (("DELETE FROM events",), 1),
    "one removed and the gap closed": (
        ("DELETE FROM events WHERE number = 4", *(
            f"UPDATE events SET number = {n} WHERE number = {n + 1}" for n in range(4, LAST)
        )), 4,
    ),
    "swapped": (swap(3, 6), 3),
    "swapped neighbours": (swap(5, 6), 5),
    "one put in": (("INSERT INTO events SELECT 9, time, kind, place, phase, started, seconds, "
                    "payload, file, NULL, chain FROM events WHERE number = 8",), 9),
    "one put before all": (("INSERT INTO events SELECT -4, time, kind, place, phase, started, "
                            "seconds, payload, file, NULL, chain FROM events WHERE number = 8",),
                           -4),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_what_was_changed_is_named_and_never_used(run, whole, what):
    statements, number = CHANGES[what]
    with Ledger.open(whole) as ledger:
        before = ledger.events()
    change(run, *statements)
    for open_it in (
        lambda: Ledger.open(run),
        lambda: Ledger.open(run, read_only=True),
        lambda: Ledger.create(run, {"seed": 3}),
    ):
        with pytest.raises(LedgerError, match=rf"^event {number} .*ledger\.db .*; put back") as got:
            open_it()
        assert "\n" not in str(got.value)
    with Ledger.open(run, broken=True) as ledger:
        good, problems = ledger.salvage()
        assert good == before[: max(number - 1, 0)] == ledger.events()
        assert ledger.faults() == problems
        assert problems[0] == str(got.value)
        assert ledger.state() == ledger.summary()["state"] == "broken"
        assert sum(ledger.summary()["counts"].values()) == len(good)
        for write in (
            lambda: ledger.note("warning"),
            lambda: ledger.phase("versions/09", "train", dict),
            lambda: ledger.phase("run", "base", dict),
            lambda: approval.ask(ledger, "run", "patch", {}),
        ):
            with pytest.raises(LedgerError, match=f"event {number} "):
                write()
        if not good:
            for read in (lambda: ledger.config, ledger.last):
                with pytest.raises(LedgerError, match=f"event {number} "):
                    read()


def test_the_fault_says_which_phase_and_what_is_no_longer_used(run):
    change(run, "UPDATE events SET payload = '{}' WHERE number = 5")
    with Ledger.open(run, broken=True) as ledger:
        first, after = ledger.faults()
    assert first == (
        f"event 5 (phase gate in versions/03) of {run / 'ledger.db'} is not what was recorded: it, "
        "or one before it, was changed or removed; put back a copy of the file, or begin another "
        "run in a new folder"
    )
    assert after.startswith(f"events 6 to 8 of {run / 'ledger.db'}: not used")


TEXT = st.one_of(
    st.none(), st.text(st.characters(exclude_categories=["Cs"])), st.binary(), st.integers(0, 9)
)
VALUES = {
    name: st.one_of(st.none(), st.floats(allow_nan=False)) if name == "seconds" else TEXT
    for name in (*COLUMNS[1:], "chain")
}


@settings(max_examples=150)
@given(
    number=st.integers(1, LAST),
    change=st.sampled_from(sorted(VALUES)).flatmap(
        lambda name: st.tuples(st.just(name), VALUES[name])
    ),
)
def test_no_column_of_any_event_changes_unseen(whole, tmp_path_factory, number, change):
    column, value = change
    folder = tmp_path_factory.mktemp("changed")
    shutil.copyfile(whole / "ledger.db", folder / "ledger.db")
    query = f"SELECT typeof({column}), {column} FROM events WHERE number = {number}"
    with unguarded(folder) as connection:
        before = connection.execute(query).fetchone()
        with suppress(sqlite3.IntegrityError):  # null where it cannot be
            connection.execute(f"UPDATE events SET {column} = ? WHERE number = {number}", [value])
        changed = connection.execute(query).fetchone() != before
    if not changed:
        Ledger.open(folder).close()
        return
    with pytest.raises(LedgerError, match=rf"^event {number} ") as got:
        Ledger.open(folder)
    assert str(folder / "ledger.db") in str(got.value)
    with Ledger.open(folder, broken=True) as ledger:
        assert [event.number for event in ledger.salvage()[0]] == list(range(1, number))


@given(one=st.integers(1, LAST), other=st.integers(1, LAST))
def test_no_two_events_change_places_unseen(whole, tmp_path_factory, one, other):
    folder = tmp_path_factory.mktemp("swapped")
    shutil.copyfile(whole / "ledger.db", folder / "ledger.db")
    change(folder, *swap(one, other))
    if one == other:
        Ledger.open(folder).close()
    else:
        with pytest.raises(LedgerError, match=f"^event {min(one, other)} "):
            Ledger.open(folder)


@pytest.mark.parametrize("data", [b"{}", b"no JSON", b"\xff", None])
def test_a_changed_large_file_spoils_its_event_alone(run, data):
    with Ledger.open(run) as ledger:
        ledger.note("done")
    (file,) = (run / "files").iterdir()
    file.unlink()
    if data is not None:
        file.write_bytes(data)
    with Ledger.open(run) as ledger:
        where = r"event 8 \(phase evaluate in versions/03\) of .*ledger\.db"
        for read in (ledger.events, lambda: ledger.recorded("versions/03", "evaluate")):
            with pytest.raises(LedgerError, match=where):
                read()
        events, problems = ledger.salvage()
        assert [event.number for event in events] == list(range(1, 10))
        assert events[7].payload == {"keep": 1}
        assert len(problems) == 1
        assert str(file) in problems[0]
        assert ledger.state() == "done"


def test_events_of_other_processes_are_checked_when_they_are_read(run):
    with Ledger.open(run) as ledger, Ledger.open(run, broken=True) as salvaging:
        with Ledger.open(run) as other:
            other.note("warning", text="good")
        assert ledger.last().payload == {"text": "good"}
        change(run, "INSERT INTO events (number, time, kind, payload, chain) "
                    "VALUES (10, 'now', 'warning', '{\"text\": \"bad\"}', 'none')")  # fmt: skip
        for act in (ledger.last, ledger.events, lambda: ledger.note("warning"), ledger.summary):
            with pytest.raises(LedgerError, match=r"^event 10 \(warning\) of"):
                act()
        assert salvaging.last().payload == {"text": "good"}
        assert len(ledger.faults()) == len(salvaging.faults()) == 1
        assert len(ledger.salvage()[0]) == 9


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM events WHERE number = 8",
        "UPDATE events SET payload = '{}' WHERE number = 8",
        "DELETE FROM events",
    ],
)
def test_the_last_event_does_not_change_while_a_ledger_is_open(run, statement):
    with Ledger.open(run) as ledger:
        change(run, statement)
        with pytest.raises(LedgerError, match=r"^event 8 "):
            ledger.note("warning")


def test_a_payload_of_a_good_chain_that_is_no_json(run):
    """Whoever makes a chain of their own gets an error too, by event and file."""
    for number, (kind, text) in enumerate(
        [("warning", "no JSON"), ("warning", "[1]"), ("asked", "{}"), ("answered", "3")], LAST + 1
    ):
        with unguarded(run) as connection:
            before = connection.execute("SELECT chain FROM events ORDER BY number").fetchall()[-1]
            values = dict.fromkeys(COLUMNS) | {
                "number": number, "time": "now", "kind": kind, "payload": text,
            }  # fmt: skip
            row = (*values.values(), link(before[0], values))
            connection.execute(f"INSERT INTO events VALUES ({', '.join('?' * 11)})", row)
    with Ledger.open(run) as ledger:
        for number, act in (
            (9, lambda: ledger.events("warning")),
            (9, lambda: ledger.members("spent")),
            (11, lambda: approval.waiting(ledger)),
            (12, ledger.state),
        ):
            with pytest.raises(LedgerError, match=rf"event {number} .* of .*ledger\.db"):
                act()
        events, problems = ledger.salvage()
        assert len(events) == 12
        assert [text.split(" (")[0] for text in problems] == [
            f"the payload of event {number}" for number in (9, 10, 12)
        ]


def test_a_table_without_a_column_is_an_error_that_names_the_file(run):
    change(run, "ALTER TABLE events RENAME COLUMN place TO round")
    with pytest.raises(LedgerError, match=r"ledger\.db: no such column: place"):
        Ledger.open(run, broken=True)


def test_what_would_not_read_back_is_not_recorded(run):
    with Ledger.open(run) as ledger:
        with pytest.raises(LedgerError, match="seconds would not read back"):
            ledger.append("warning", {}, seconds=float("nan"))
        assert ledger.append("warning", {}, seconds=2).seconds == 2.0
    with Ledger.open(run) as ledger:
        assert ledger.last().number == LAST + 1
