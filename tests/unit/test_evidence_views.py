"""The views of a run: what they show, what they leave out, and that damage is named."""

import random

import pytest

pytest.importorskip("duckdb", reason="the views need the extra `train`")

import pyarrow
from pyarrow import parquet
from synthetic import keep, make_run, rollout

from coevolve.core.errors import UserError
from coevolve.core.splits import Split
from coevolve.diagnostics import views
from coevolve.diagnostics.columns import MEANINGS
from coevolve.diagnostics.connection import Bounds
from coevolve.diagnostics.health import Diagnosis, number
from coevolve.diagnostics.views import NAMES, connect, gather
from coevolve.store.layout import parts_of, sound


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "run", 5)


def rows(evidence, sql, **options):
    with connect(evidence, **options) as connection:
        return connection.execute(sql).fetchall()


@pytest.mark.parametrize("view", NAMES)
def test_every_column_has_a_meaning(made, view):
    with connect(gather(made.folder)) as connection:
        columns = [row[0] for row in connection.execute(f"DESCRIBE {view}").fetchall()]
    assert columns == list(MEANINGS[view])


@pytest.mark.parametrize("in_memory", [False, True])
def test_rollouts_know_their_version_and_source(made, in_memory):
    found = rows(
        gather(made.folder),
        "SELECT version, source, task_id, sample, reward, valid, failure, turns, answer_length, "
        "calls FROM rollouts",
        in_memory=in_memory,
    )
    wanted = []
    for version, source, one in made.kept:
        if source != "gate":
            said = [turn.content for turn in one.messages if turn.role == "assistant"]
            outcome = one.outcome
            calls = outcome.details.get("calls")
            wanted.append(
                (
                    version,
                    source,
                    one.task_id,
                    one.sample,
                    outcome.reward,
                    outcome.valid,
                    outcome.failure,
                    len(said),
                    len(said[-1]),
                    None if calls is None else len(calls),
                )
            )
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


def test_ids_are_unique_and_join_the_views(made):
    evidence = gather(made.folder)
    n = sum(kept.source != "gate" for kept in made.kept)
    assert rows(evidence, "SELECT count(DISTINCT id), count(*) FROM rollouts") == [(n, n)]
    assert rows(
        evidence,
        "SELECT count(*) FROM rollouts r WHERE turns <> (SELECT count(*) FROM turns t WHERE "
        "t.id = r.id AND role = 'assistant')",
    ) == [(0,)]


def test_turns_begin_after_the_prompt_and_name_their_tools(made):
    found = rows(gather(made.folder), "SELECT * EXCLUDE (id) FROM turns")
    wanted = []
    for version, source, one in made.kept:
        if source == "gate":
            continue
        calls = iter(one.outcome.details.get("calls", ()))
        for position, turn in enumerate(one.messages[2:]):
            call = next(calls, {}) if turn.role == "tool" else {}
            wanted.append(
                (
                    version,
                    source,
                    one.task_id,
                    one.sample,
                    position,
                    turn.role,
                    len(turn.content),
                    turn.content,
                    call.get("tool"),
                    call.get("ok"),
                )
            )
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


def test_groups_are_rollouts_that_are_compared(made):
    found = rows(
        gather(made.folder),
        'SELECT version, "group", n, mean, dead, "values", largest_share FROM groups '
        "WHERE source = 'train'",
    )
    wanted = {}
    for version, source, one in made.kept:
        if source == "train":
            wanted.setdefault((version, one.group), []).append(one.outcome.reward)
    assert len(found) == len(wanted)
    for version, group, n, mean, dead, values, largest in found:
        rewards = wanted[version, group]
        assert (n, values, dead) == (len(rewards), len(set(rewards)), len(set(rewards)) == 1)
        assert mean == pytest.approx(sum(rewards) / n)
        assert largest == pytest.approx(max(map(rewards.count, rewards)) / n)


def test_versions_and_steps_come_from_the_record(made):
    evidence = gather(made.folder)
    found = rows(evidence, "SELECT version, parent, verdict, checkpoint FROM versions ORDER BY 1")
    assert [(version, parent) for version, parent, *_ in found] == list(made.parents.items())
    assert {verdict for *_, verdict, _ in found} <= {"kept", "reverted"}
    assert [checkpoint for *_, checkpoint in found] == [f"p{version}" for version in range(4)]
    losses = rows(evidence, "SELECT version, list(loss ORDER BY step) FROM steps GROUP BY 1")
    assert dict(losses) == made.losses


def test_only_files_of_the_version_asked_for_are_opened(made):
    sql = "SELECT count(*) FROM rollouts WHERE version = 2 AND source = 'dev'"
    plan = str(rows(gather(made.folder), f"EXPLAIN {sql}"))
    assert plan.upper().count("READ_PARQUET") <= 2  # the node and its function, of one part
    assert str(rows(gather(made.folder), "EXPLAIN SELECT count(*) FROM rollouts")).upper().count(
        "READ_PARQUET"
    ) >= 12  # fmt: skip


def test_a_damaged_file_is_named_and_the_rest_is_shown(tmp_path):
    made = make_run(tmp_path / "run", 6, versions=2)
    folder = made.folder / "versions" / "00" / "stage" / "rollouts"
    files = sorted(folder.glob("*.parquet"))
    files[0].write_bytes(files[0].read_bytes()[:-40])
    files[1].write_bytes(b"")
    parquet.write_table(pyarrow.table({"a": [1]}), files[2])
    evidence = gather(made.folder)
    assert [broken.file for broken in evidence.broken] == files[:3]
    assert all(broken.reason for broken in evidence.broken)
    found = rows(
        evidence, "SELECT DISTINCT step FROM rollouts WHERE source = 'train' AND version = 0"
    )
    assert sorted(found) == [(3,), (4,)]


def test_damage_inside_a_file_is_found_when_it_is_read(tmp_path):
    made = make_run(tmp_path / "run", 7, versions=1)
    file = made.folder / "versions/00/stage/rollouts/step-000001-0.parquet"
    data = bytearray(file.read_bytes())
    data[4:1500] = bytes(1496)  # the first columns; the footer stays whole
    file.write_bytes(bytes(data))
    assert [broken.file for broken in gather(made.folder).broken] == [file]
    with Diagnosis(made.folder) as diagnosis:
        health = diagnosis.health(["train_valid_rate"])
    assert [broken.file for broken in health.broken] == [file]
    n = sum(k.source == "train" and k.rollout.step != 1 for k in made.kept)
    assert [reading.n for reading in health.findings[0].readings] == [n]


def test_rows_of_another_split_are_left_out_wherever_they_lie(tmp_path):
    made = make_run(tmp_path / "run", 8, versions=1)
    stray = [rollout(random.Random(0), "stray", split=Split.GATE)]
    keep(made, 0, "dev", stray, made.folder / "versions/00/dev/part-00001")
    assert rows(gather(made.folder), "SELECT * FROM rollouts WHERE task_id = 'stray'") == []
    assert rows(gather(made.folder), "SELECT * FROM messages WHERE task_id = 'stray'") == []


@pytest.mark.parametrize("name", ["it's", "a[1]b", "star*", "what?", "späße 1"])
def test_any_folder_name_works(tmp_path, name):
    made = make_run(tmp_path / name, 9, versions=1)
    n = sum(kept.source != "gate" for kept in made.kept)
    assert rows(gather(made.folder), "SELECT count(*) FROM rollouts") == [(n,)]
    with Diagnosis(made.folder) as diagnosis:
        assert diagnosis.locked.ask("SELECT count(*) FROM rollouts").rows == [[n]]


def test_a_stage_is_a_run_of_one_version(tmp_path):
    made = make_run(tmp_path / "run", 10, versions=1)
    stage = made.folder / "versions" / "00" / "stage"
    (stage / "stage.json").write_text("{}")
    evidence = gather(stage)
    assert rows(evidence, "SELECT DISTINCT version, source FROM rollouts") == [(0, "train")]
    assert rows(evidence, "SELECT count(*) FROM steps") == [(5,)]


def test_a_run_without_rollouts_has_empty_views(tmp_path):
    made = make_run(tmp_path / "run", 11, versions=0)
    evidence = gather(made.folder)
    for name in NAMES:
        assert rows(evidence, f"SELECT * FROM {name}") == []
    with pytest.raises(UserError, match="no rollouts"):
        Diagnosis(made.folder)
    with pytest.raises(UserError, match="not the folder of a run"):
        gather(tmp_path)


def test_gate_files_are_listed_only_for_who_names_the_split(made):
    shown = parts_of(made.folder)
    assert {part.source for part in shown} == {"train", "dev", "probe"}
    judged = parts_of(made.folder, [Split.GATE])
    assert {part.source for part in judged} == {"gate"}
    whole, broken = sound(made.folder, judged, {}, thoroughly=True)
    assert whole == judged
    assert not broken


def test_the_seals_are_read_once(made, monkeypatch):
    count = []
    monkeypatch.setattr(views, "sums_of", lambda folder: count.append(folder) or {})
    gather(made.folder)
    assert count == [made.folder.resolve()]


def test_readings_do_not_depend_on_the_order_of_sums():
    one, other = sum([0.1, 0.2, 0.3]), sum([0.3, 0.2, 0.1])
    assert one != other
    assert number(one) == number(other) == 0.6
    assert number(None) is number(float("nan")) is number("inf") is None
    assert Bounds().threads == 1
