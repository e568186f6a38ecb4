"""SQL that a model writes: clocks, chance, poison, and diagnostics that learn verdicts by heart."""

import pytest

pytest.importorskip("duckdb", reason="the locked connection needs the extra `train`")

from synthetic import make_run

from coevolve.core.errors import EvidenceError
from coevolve.diagnostics.connection import Bounds, Locked
from coevolve.diagnostics.health import Diagnosis, readings_alone
from coevolve.diagnostics.trials import Occasion, try_diagnostics
from coevolve.diagnostics.views import gather
from coevolve.harness.diagnostic import Diagnostic

BOUNDS = Bounds(seconds=60, memory=256 * 1024 * 1024, rows=100, size=100_000)
VERSIONS = 8
BAD = (1, 3, 5, 7)
"""Versions that a diagnostic would like to name."""

CLOCKS = """
SELECT current_date
SELECT current_time
SELECT current_timestamp
SELECT localtime
SELECT localtimestamp
SELECT CURRENT_DATE - DATE '2020-01-01'
SELECT "current_date"
SELECT now()
SELECT today()
SELECT get_current_time()
SELECT get_current_timestamp()
SELECT transaction_timestamp()
SELECT current_localtime()
SELECT current_localtimestamp()
SELECT age(TIMESTAMP '2020-01-01')
SELECT ago(INTERVAL 1 DAY)
SELECT epoch(current_timestamp)
SELECT list_transform([1], lambda x: current_date)
SELECT (SELECT current_date)
SELECT * FROM rollouts WHERE step > epoch(now())
SELECT * FROM rollouts ORDER BY current_timestamp
SELECT count(*) OVER (ORDER BY current_date) FROM rollouts
SELECT 1 LIMIT (SELECT extract(day FROM current_date))
WITH t AS (SELECT current_date AS d) SELECT d FROM t
SELECT sum(reward) FILTER (current_date > DATE '2020-01-01') FROM rollouts
SELECT CASE WHEN current_date > DATE '2020-01-01' THEN 1 END
SELECT date_diff('day', DATE '2020-01-01', current_date)
SELECT {'d': current_date}
SELECT uuidv7()
SELECT uuid_extract_timestamp(uuidv7())
SELECT 'now'::TIMESTAMP
SELECT 'today'::DATE
SELECT current_date FROM (SELECT 1 AS one) t
SELECT max(current_date) FROM rollouts HAVING current_date IS NOT NULL
SELECT * FROM range(1, extract(year FROM current_date)::BIGINT)
""".strip().splitlines()
PEOPLE = """
SELECT user
SELECT current_user
SELECT session_user
SELECT current_role
SELECT current_catalog
SELECT current_schema
SELECT current_database()
SELECT current_schemas(true)
SELECT current_setting('threads')
SELECT current_query()
SELECT version()
SELECT getenv('HOME')
SELECT pg_backend_pid()
SELECT inet_client_addr()
SELECT txid_current()
SELECT current_connection_id()
""".strip().splitlines()
CHANCE = """
SELECT random()
SELECT setseed(0.5)
SELECT uuid()
SELECT gen_random_uuid()
SELECT uuidv4()
SELECT reservoir_quantile(reward, 0.5) FROM rollouts
SELECT reservoir_quantile(reward, 0.5, 10) FROM rollouts
SELECT list_aggregate([1, 2, 3], 'reservoir_quantile', 0.5)
SELECT list_aggr([1, 2], 'Reservoir_Quantile', 0.5)
SELECT array_aggregate([1, 2], 'reservoir_' || 'quantile', 0.5)
SELECT list_aggregate([1, 2], (SELECT 'reservoir_quantile'), 0.5)
SELECT [1, 2].list_aggr('reservoir_quantile', 0.5)
SELECT list_aggr([1, 2])
SELECT * FROM rollouts USING SAMPLE 3
SELECT * FROM rollouts TABLESAMPLE 10%
SELECT * FROM rollouts ORDER BY random()
SELECT list_sort([random()])
SELECT list_transform([1], lambda x: random())
SELECT nextval('s')
""".strip().splitlines()
POISON = """
SELECT reservoir_quantile(reward, 0.5, 1000000000) FROM rollouts
SELECT list_aggr([1, 2], 'reservoir_quantile', 0.5, 1000000000)
SELECT approx_quantile(reward, 2) FROM rollouts
SELECT approx_top_k(reward, 100000000) FROM rollouts
SELECT quantile_cont(reward, [0.1, 7]) FROM rollouts
SELECT repeat('x', 1000000000000)
SELECT lpad('x', 2000000000, 'y')
SELECT list_resize([1], 100000000000)
SELECT range(100000000000)
SELECT bitstring('1', 2000000000)
SELECT histogram(reward, range(100000000)) FROM rollouts
SELECT max(text, 100000000) FROM turns
SELECT arg_max(text, length, 100000000) FROM turns
SELECT list_transform(range(100000000), lambda x: [x, x, x])
SELECT string_agg(text, repeat('x', 100000000)) FROM turns
SELECT regexp_replace(repeat('a', 10000000), '(a*)*b', '')
SELECT regexp_matches('a', '((a{1000}){1000}){1000}')
SELECT factorial(1000000)
SELECT '1e999'::DOUBLE::INTEGER
SELECT 1::TINYINT + 1000
SELECT json_extract(repeat('[', 5000), '$[0]')
SELECT from_json('[1', '["INTEGER"]')
SELECT finalize(to_aggregate_state('x'::BLOB, 'sum'))
SELECT nonsense FROM nowhere
SELECT sum(text) FROM turns
SELECT equi_width_bins(0, 1, 1000000000, true)
""".strip().splitlines()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "run", 4, versions=VERSIONS)


@pytest.fixture(scope="module")
def locked(made):
    with Locked(gather(made.folder), BOUNDS) as connection:
        yield connection


def answered(locked: Locked, statement: str) -> str:
    try:
        return str(locked.ask(statement).rows)
    except EvidenceError:
        return ""


@pytest.mark.parametrize("statement", [*CLOCKS, *PEOPLE, *CHANCE])
def test_nothing_tells_the_time_the_machine_or_a_chance(locked, held, statement):
    said = answered(locked, statement)
    held("SQL: clock, user, chance", not said, f"{statement}: {said}")


def test_a_poisoned_connection_is_replaced_before_the_next_statement(made, held):
    tight = BOUNDS.model_copy(update={"seconds": 1.0})
    with Locked(gather(made.folder), tight) as locked:
        facts = locked.ask("SELECT version, count(*) FROM rollouts GROUP BY 1 ORDER BY 1")
        for statement in POISON:
            answered(locked, statement)
            locked.bounds = BOUNDS
            try:
                now = locked.ask("SELECT version, count(*) FROM rollouts GROUP BY 1 ORDER BY 1")
            except EvidenceError as error:
                now = error
            held("SQL: poison", now == facts, f"{statement}: {now}")
            locked.bounds = tight


def test_a_process_that_was_killed_is_replaced(made, held):
    with Locked(gather(made.folder), BOUNDS) as locked:
        facts = locked.ask("SELECT count(*) FROM rollouts")
        for _ in range(3):
            locked.process.kill()
            locked.process.wait()
            held("SQL: poison", locked.ask("SELECT count(*) FROM rollouts") == facts)


WHOLE = "SELECT version, {value} AS value, count(*) AS n FROM rollouts GROUP BY version"
BY_HEART = {
    "a list": WHOLE.format(value="(version IN (1, 3, 5, 7))::INT"),
    "odd numbers": WHOLE.format(value="version % 2"),
    "a case": WHOLE.format(value="CASE version WHEN 1 THEN 1 WHEN 3 THEN 1 WHEN 5 THEN 1 "
                                 "WHEN 7 THEN 1 ELSE 0 END"),
    "text of the number": WHOLE.format(value="('1357' LIKE '%' || version || '%')::INT"),
    "contains": WHOLE.format(value="list_contains([1, 3, 5, 7], version)::INT"),
    "bits": WHOLE.format(value="version & 1"),
    "between": WHOLE.format(value="sum(version BETWEEN 5 AND 7)"),
    "trigonometry": WHOLE.format(value="sin(version * pi() / 2) ** 2"),
    "values joined": "SELECT version, max(bad) AS value, count(*) AS n FROM rollouts LEFT JOIN "
                     "(VALUES (1, 1), (3, 1), (5, 1), (7, 1)) t(v, bad) ON v = version GROUP BY 1",
    "rows without evidence": "SELECT * FROM (VALUES (0, 0, 99), (1, 1, 99), (2, 0, 99), "
                             "(3, 1, 99), (5, 1, 99), (7, 1, 99)) t(version, value, n)",
    "a series": "SELECT i AS version, i % 2 AS value, 99 AS n FROM range(8) t(i)",
    "rank": "SELECT version, (row_number() OVER (ORDER BY version)) % 2 AS value, 99 AS n "
            "FROM versions",
    "dense rank of rollouts": "SELECT DISTINCT version, dense_rank() OVER (ORDER BY version) % 2 "
                              "AS value, 99 AS n FROM rollouts",
    "count of earlier ones": "SELECT a.version, count(b.version) % 2 AS value, 99 AS n FROM "
                             "versions a LEFT JOIN versions b ON b.version < a.version GROUP BY 1",
    "depth": "WITH RECURSIVE d(version, depth) AS (SELECT version, 0 FROM versions WHERE parent IS "
             "NULL UNION ALL SELECT v.version, depth + 1 FROM versions v JOIN d ON v.parent = "
             "d.version) SELECT version, depth % 2 AS value, 99 AS n FROM d",
    "the parent's number": "SELECT version, (parent + 1) % 2 AS value, 99 AS n FROM versions",
    "id": WHOLE.format(value="max(regexp_matches(id, 'versions/0[1357]'))::INT"),
    "a letter of the id": WHOLE.format(value="max(instr('1357', id[11]) > 0)::INT"),
    "id of turns": "SELECT version, max((id LIKE '%/01/%')::INT) AS value, 99 AS n FROM turns "
                   "GROUP BY 1",
    "policy": WHOLE.format(value="max(length(policy))"),
    "checkpoint": "SELECT version, max((checkpoint LIKE '%0_/%')::INT) AS value, 99 AS n FROM "
                  "versions WHERE checkpoint IS NOT NULL GROUP BY 1",
    "verdict": "SELECT version, (verdict = 'pruned')::INT AS value, 99 AS n FROM versions",
    "engineer": "SELECT version, length(engineer) AS value, 99 AS n FROM versions",
    "seconds of the clock": "SELECT version, seconds AS value, 99 AS n FROM versions",
    "seconds of steps": "SELECT version, sum(seconds) AS value, 99 AS n FROM steps GROUP BY 1",
    "seconds of rollouts": WHOLE.format(value="sum(seconds)"),
    "time of drawing": "SELECT version, sum(drawing_s) AS value, 99 AS n FROM steps GROUP BY 1",
    "the run's columns": "SELECT version, max(version) OVER () AS value, 99 AS n FROM versions",
}  # fmt: skip
NAMES = {
    "tasks by name": WHOLE.format(value="count_if(task_id IN ('{tasks}'))"),
    "groups by name": WHOLE.format(value="count_if(\"group\" IN ('{tasks}'))"),
    "rollouts by name": WHOLE.format(value="count_if(id LIKE 'versions/%')"),
    "a hash of tasks": WHOLE.format(value="sum(hash(task_id) % 7)"),
    "md5 of tasks": WHOLE.format(value="count_if(md5(task_id) < '8')"),
    "sha of texts": "SELECT version, count_if(sha256(text) < '8') AS value, 99 AS n FROM turns "
                    "GROUP BY version",
    "forty constants": WHOLE.format(
        value=" + ".join(f"count_if(reward = 0.{i})" for i in range(40))
    ),
    "many digits": WHOLE.format(value="count_if(entropy BETWEEN 0.81234567 AND 0.81234568)"),
    "a long text": WHOLE.format(value="count_if(failure = '" + "x" * 60 + "')"),
    "digits as text": WHOLE.format(value="count_if(entropy::VARCHAR = '0.8123456789')"),
}  # fmt: skip


def told(made, found) -> set[float]:
    """The different values of a diagnostic, of versions that have a parent."""
    return {one.value for one in found if made.parents[one.version] is not None}


@pytest.mark.parametrize("what", BY_HEART)
def test_no_diagnostic_knows_which_version_it_is_asked_of(made, locked, held, what):
    diagnostic = Diagnostic(name="heart", question="?", layer="version", sql=BY_HEART[what])
    try:
        found = readings_alone(diagnostic, locked)
    except EvidenceError:
        found = ()
    held("SQL: versions by heart", len(told(made, found)) <= 1, f"{what}: {found}")


@pytest.mark.parametrize("what", NAMES)
def test_no_diagnostic_names_tasks(made, locked, held, what):
    names = "', '".join(sorted({one.rollout.task_id for one in made.kept})[:5])
    sql = NAMES[what].replace("{tasks}", names)
    diagnostic = Diagnostic(name="heart", question="?", layer="version", sql=sql)
    try:
        found = readings_alone(diagnostic, locked)
    except EvidenceError:
        found = ()
    held("SQL: tasks by heart", not any(told(made, found)), f"{what}: {found}")


def test_verdicts_by_heart_are_not_validated(made, held):
    labels = {version: version not in BAD for version in range(VERSIONS)}
    tried = ("a list", "odd numbers", "rows without evidence", "rank", "id")
    proposed = [
        Diagnostic(name=f"heart_{place}", question="?", layer="version", sql=BY_HEART[what])
        for place, what in enumerate(tried)
    ]
    occasion = Occasion(folder=made.folder, labels=labels, since=VERSIONS)
    for what, trial in zip(tried, try_diagnostics(proposed, occasion), strict=True):
        safe = not trial.accepted and (trial.value or 0) < 1
        held("SQL: versions by heart", safe, f"{what}: {trial.reason}")


def test_a_useful_diagnostic_still_reads_what_it_read(made):
    """One version at a time gives what all of them at once give, also beside the parent."""
    plain = "SELECT version, avg(reward) AS value, count(*) AS n FROM rollouts GROUP BY version"
    beside = (
        f"WITH r AS ({plain}) SELECT v.version, a.value - b.value AS value, a.n FROM versions v "
        "JOIN r a ON a.version = v.version JOIN r b ON b.version = v.parent"
    )
    with Diagnosis(made.folder) as diagnosis:
        for sql in (plain, beside):
            one = Diagnostic(name="one", question="?", layer="score", sql=sql)
            ours = diagnosis.finding(one.model_copy(update={"built_in": True}))
            theirs = diagnosis.finding(one)
            assert [one.value for one in theirs.readings] == pytest.approx(
                [one.value for one in ours.readings]
            )
            assert len(theirs.readings) >= VERSIONS - 2
