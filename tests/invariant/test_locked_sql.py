"""Whatever a model writes as SQL: it sees no gate rollout, writes nothing, and ends in time."""

import hashlib
import time
from pathlib import Path

import pytest

pytest.importorskip("duckdb", reason="the locked connection needs the extra `train`")

from hostile import REFUSED, STOPPED, statements
from synthetic import make_run

from coevolve.core.errors import EvidenceError
from coevolve.core.splits import Split
from coevolve.diagnostics.connection import Bounds, Locked
from coevolve.diagnostics.health import behind_sql
from coevolve.diagnostics.suite import load_suite
from coevolve.diagnostics.views import gather

BOUNDS = Bounds(seconds=60, memory=256 * 1024 * 1024, rows=100, size=100_000)
TIGHT = BOUNDS.model_copy(update={"seconds": 1.0})
PEAK = BOUNDS.memory + 1024 * 1024 * 1024
"""Bytes that the process may reach, with its libraries."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "run", 4)


@pytest.fixture
def locked(made):
    with Locked(gather(made.folder), BOUNDS) as connection:
        yield connection


def state(folder: Path) -> dict[str, str]:
    """Every file of a folder with a hash of its content."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def peak(locked: Locked) -> int:
    assert locked.process is not None
    status = Path(f"/proc/{locked.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def test_a_hundred_hostile_statements_are_refused_and_change_nothing(made, locked, tmp_path):
    gate = made.folder / "versions" / "00" / "gate" / "part-00000.parquet"
    assert gate.is_file()
    hostile = statements(REFUSED, out=tmp_path, gate=gate, run=made.folder)
    assert len(hostile) >= 100
    before = state(made.folder)
    facts = locked.ask("SELECT version, count(*) FROM rollouts GROUP BY 1 ORDER BY 1")
    process = locked.process
    for statement in hostile:
        with pytest.raises(EvidenceError, match="refused: "):
            print(statement, locked.ask(statement))
    assert locked.process is process  # none of them even had to be killed
    assert state(made.folder) == before
    assert not list(tmp_path.iterdir())
    assert locked.ask("SELECT version, count(*) FROM rollouts GROUP BY 1 ORDER BY 1") == facts
    assert peak(locked) < PEAK


@pytest.mark.parametrize("statement", statements(STOPPED, parentheses="(" * 900 + "1" + ")" * 900))
def test_what_takes_too_much_is_stopped(locked, statement):
    locked.ask("SELECT 1")
    locked.bounds = TIGHT
    began = time.monotonic()
    try:
        answer = locked.ask(statement)
    except EvidenceError:
        pass
    else:  # small enough after all
        assert len(str(answer.rows)) <= TIGHT.size
    assert time.monotonic() - began < TIGHT.seconds + 30  # a busy machine kills late
    if locked.process is not None and locked.process.poll() is None:
        assert peak(locked) < PEAK
    locked.bounds = BOUNDS
    assert locked.ask("SELECT count(DISTINCT version) FROM rollouts").rows == [[4]]


def test_the_lock_holds_even_for_statements_that_are_not_judged(made, monkeypatch, tmp_path):
    """The second line of defence: DuckDB's own settings and the limits of the process."""
    import duckdb

    from coevolve.diagnostics import confinement

    connection = duckdb.connect(config={"python_enable_replacements": False})
    evidence = gather(made.folder)
    for statement in evidence.statements():
        connection.execute(statement)
    confinement.lock(connection, [str(file) for file in evidence.files])
    gate = made.folder / "versions" / "00" / "gate" / "part-00000.parquet"
    for statement in (
        f"SELECT * FROM read_parquet('{gate}')",
        f"SELECT * FROM glob('{made.folder}/**')",
        "SELECT * FROM read_text('/etc/passwd')",
        f"COPY rollouts TO '{tmp_path}/x.csv'",
        f"ATTACH '{tmp_path}/x.db' AS x",
        "SET enable_external_access = true",
        "SET memory_limit = '1TB'",
        "INSTALL httpfs",
        "LOAD httpfs",
    ):
        with pytest.raises(duckdb.Error):
            connection.execute(statement).fetchall()
    assert connection.execute("SELECT count(*) > 0 FROM rollouts").fetchall() == [(True,)]
    assert not list(tmp_path.iterdir())


def test_no_gate_rollout_is_ever_seen(made, locked):
    tasks = {kept.rollout.task_id for kept in made.kept if kept.source == "gate"}
    for view in ("rollouts", "groups", "turns", "messages"):
        seen = {row[0] for row in locked.ask(f"SELECT DISTINCT task_id FROM {view}").rows}
        assert seen
        assert not seen & tasks
    with pytest.raises(ValueError, match="gate"):
        Locked(gather(made.folder, [Split.DEV, Split.GATE]))


def test_answers_are_cut_to_their_limits_and_say_so(locked):
    answer = locked.ask("SELECT * FROM messages")
    assert answer.cut
    assert len(answer.rows) == BOUNDS.rows
    wide = locked.ask("SELECT repeat('x', 30000) FROM range(50)")
    assert wide.cut
    assert len(wide.rows) == 3
    with pytest.raises(EvidenceError, match="larger than an answer"):
        locked.ask("SELECT repeat('x', 200000)")


def test_useful_statements_pass(locked):
    for statement in (
        "DESCRIBE rollouts",
        "SUMMARIZE steps",
        "WITH r AS (SELECT * FROM rollouts) SELECT count(*) FROM r",
        "SELECT row_number() OVER (PARTITION BY version ORDER BY reward) FROM rollouts LIMIT 3",
        "SELECT quantile_cont(reward, 0.5), mode(failure) FROM rollouts",
        "SELECT bucket['size'], components['accuracy'], details->>'cost' FROM rollouts LIMIT 2",
        "SELECT * FROM turns WHERE text ILIKE '%up%' AND regexp_matches(text, '^u')",
        "SELECT unnest([1, 2]) UNION ALL SELECT * FROM range(3) EXCEPT SELECT 1",
    ):
        assert locked.ask(statement).rows or "EXCEPT" in statement


def test_the_built_in_suite_needs_nothing_that_is_refused(locked):
    for diagnostic in load_suite().diagnostics.values():
        locked.ask(diagnostic.sql)
        if diagnostic.rollouts:
            locked.ask(behind_sql(diagnostic, 0, 2))
