"""Diagnostics: each against the same question answered in plain Python, and their alarms."""

import random
from pathlib import Path

import pytest

pytest.importorskip("duckdb", reason="diagnostics need the extra `train`")

from reference import reference
from synthetic import judged, keep, make_run, record, rollout

from coevolve.core.errors import UserError
from coevolve.core.rollout import Message, Outcome
from coevolve.core.splits import Split
from coevolve.diagnostics.health import Diagnosis, trend_of
from coevolve.diagnostics.suite import load_suite, read_file
from coevolve.engines.base import Result
from coevolve.harness.harness import Harness
from coevolve.harness.version import Version
from coevolve.store.ledger import Ledger
from coevolve.store.paths import version_place
from coevolve.store.phases import Grown, Train

SHARE = """
[low_share]
question = "How often is the reward low?"
layer = "signal"
warn = 0.1
critical = 0.2
rollouts = "reward < 0.4"
sql = "{sql}"
"""
GOOD = (
    "SELECT version, avg((reward < 0.4)::INTEGER) AS value, count(*) AS n FROM rollouts GROUP BY 1"
)


@pytest.mark.parametrize("seed", range(5))
def test_every_diagnostic_agrees_with_plain_python(tmp_path, seed):
    made = make_run(tmp_path / "run", seed)
    wanted = reference(made)
    with Diagnosis(made.folder) as diagnosis:
        health = diagnosis.health()
    assert {finding.diagnostic.name for finding in health.findings} == set(wanted)
    for finding in health.findings:
        name = finding.diagnostic.name
        assert not finding.error, f"{name}: {finding.error}"
        found = {reading.version: (reading.value, reading.n) for reading in finding.readings}
        assert found.keys() == wanted[name].keys(), name
        for version, (value, n) in wanted[name].items():
            assert found[version] == (pytest.approx(value, abs=1e-6), n), (name, version)
        for reading in finding.readings:
            if reading.low is not None and reading.high is not None:
                assert reading.low <= reading.value + 1e-9 <= reading.high + 2e-9, name


def test_the_rollouts_behind_a_diagnostic_are_those_it_counts(tmp_path):
    made = make_run(tmp_path / "run", 1)
    with Diagnosis(made.folder) as diagnosis:
        for diagnostic in diagnosis.suite.diagnostics.values():
            if diagnostic.rollouts:
                diagnosis.behind(diagnostic.name)  # every condition can be read
        rows = diagnosis.behind("truncation", version=2, limit=1_000)
        texts = diagnosis.texts([row[0] for row in rows.rows])
        with pytest.raises(UserError, match="reward_spread"):
            diagnosis.behind("reward_spread")
    cut = [
        kept.rollout
        for kept in made.kept
        if (kept.version, kept.source) == (2, "train") and kept.rollout.stop != "end"
    ]
    assert sorted(row[4] for row in rows.rows) == sorted(one.task_id for one in cut)
    first = dict(zip(rows.columns, rows.rows[0], strict=True))
    same = [
        [(turn.role, turn.content) for turn in one.messages]
        for one in cut
        if (one.task_id, one.sample) == (first["task_id"], first["sample"])
    ]
    assert texts[first["id"]] in same


def planted(folder, change):
    """A run of two versions with 80 train and 80 dev rollouts each; `change` edits one of them."""
    rng, made = random.Random(0), make_run(folder, 0, versions=0)
    with Ledger.open(folder) as ledger, ledger.writing():
        for version in range(2):
            name = version_place(version)
            for source, split in (("train", Split.TRAIN), ("dev", Split.DEV)):
                made_here = []
                for index in range(80):
                    step = index // 20 if source == "train" else -1
                    valid = index % 2 == 0
                    outcome = Outcome(
                        valid=valid, optimal=False, reward=0.5 * valid + 0.01 * rng.random(),
                        components={}, failure=None if valid else "hole",
                    )  # fmt: skip
                    one = rollout(
                        rng, f"{source}-{version}-{index // 4}", split=split, step=step,
                        sample=index % 4, outcome=outcome, completion_tokens=20, stop="end",
                        group=f"{step}/{index // 4}" if step >= 0 else "",
                    )  # fmt: skip
                    made_here.append(change(one, version, source))
                part = "stage/rollouts/step-000000-0" if source == "train" else "dev/part-00000"
                keep(made, version, source, made_here, folder / name / part)
            parent = version - 1 if version else None
            grown = Version(number=version, parent=parent, harness=Harness())
            trained = Train(result=Result(policy=f"p{version}", steps=4), cells=())
            record(ledger, name, "version", Grown(version=grown, code=""))
            record(ledger, name, "train", trained)
            record(ledger, name, "gate", judged("kept", parent))
    return folder


def with_outcome(one, **changes):
    return one.model_copy(update={"outcome": one.outcome.model_copy(update=changes)})


def speaking(one, *turns):
    """The same rollout with other turns of the policy."""
    said = tuple(Message(role="assistant", content=turn) for turn in turns)
    return one.model_copy(update={"messages": (*one.messages[:2], *said)})


FAULTS = {
    "contamination": lambda one, version, source: (
        one.model_copy(update={"task_id": f"same-{one.sample}"}) if version == 1 else one
    ),
    "hacked_reward": lambda one, version, source: (
        with_outcome(one, reward=one.outcome.reward + 0.3)
        if source == "train" and version == 1 and one.step >= 2
        else one
    ),
    "hacked_reward_dev": lambda one, version, source: (
        with_outcome(one, reward=one.outcome.reward + 0.3)
        if source == "dev" and version == 1
        else one
    ),
    "history_read": lambda one, version, source: with_outcome(
        one, details={"history_read": version == 1 and one.sample == 0}
    ),
    "tests_changed": lambda one, version, source: with_outcome(
        one, details={"tests_changed": version == 1}
    ),
    "invalid_pays": lambda one, version, source: (
        with_outcome(one, reward=1.0) if version == 1 and one.outcome.failure else one
    ),
    "judge_errors": lambda one, version, source: (
        with_outcome(one, failure="judge_error") if version == 1 and one.sample == 0 else one
    ),
    "echo": lambda one, version, source: speaking(one, *["again"] * 4) if version == 1 else one,
    "turns_inflated": lambda one, version, source: speaking(one, *"abcd"[: 2 + 2 * version]),
}
"""A fault for every diagnostic that blocks; version 0 is without it."""


def test_a_clean_run_has_no_blocking_alarm(tmp_path):
    with Diagnosis(planted(tmp_path / "run", lambda one, *_: one)) as diagnosis:
        health = diagnosis.health()
    assert not health.blocking(0)
    assert not health.blocking(1)
    blocking = {one.name for one in load_suite().diagnostics.values() if one.blocks}
    assert blocking == set(FAULTS)


def test_tasks_that_are_learned_by_heart_are_told(tmp_path):
    def by_heart(one, version, source):
        """The same tasks at each step, solved in the end; dev stays as it was."""
        if source != "train":
            return one
        solved = version == 1 and (one.step >= 2 or one.outcome.valid)
        same = one.model_copy(update={"task_id": f"{version}-{one.group.partition('/')[2][-1]}"})
        return with_outcome(same, valid=solved or one.outcome.valid)

    with Diagnosis(planted(tmp_path / "run", by_heart)) as diagnosis:
        readings = {one.diagnostic.name: one for one in diagnosis.health().findings}["memorised"]
        alarms = [one for one in diagnosis.health().alarms if one.diagnostic == "memorised"]
    (reading,) = readings.readings  # version 0 has no parent to be compared with
    assert (reading.version, reading.value) == (1, pytest.approx(0.5))
    assert [(one.version, one.level) for one in alarms] == [(1, "critical")]


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_raises_its_alarm_and_blocks_its_version_only(tmp_path, name):
    with Diagnosis(planted(tmp_path / "run", FAULTS[name])) as diagnosis:
        health = diagnosis.health()
    assert name in {alarm.diagnostic for alarm in health.blocking(1)}
    assert not health.blocking(0)
    alarm = next(alarm for alarm in health.alarms if alarm.diagnostic == name)
    diagnostic = diagnosis.suite.diagnostics[name]
    assert alarm.threshold == diagnostic.critical
    for part in (name, f"{alarm.value:.4g}", f"{alarm.threshold:g}", "version 1", "blocks"):
        assert part in alarm.words


def test_alarms_need_enough_data_and_know_their_side(tmp_path):
    suite = load_suite().diagnostics
    dead, spread = suite["dead_groups"], suite["reward_spread"]
    assert [dead.level(value, 100) for value in (0.3, 0.31, 0.5, 0.51)] == [
        None, "warn", "warn", "critical",
    ]  # fmt: skip
    assert dead.level(1.0, dead.least - 1) is None
    assert spread.level(0.04, 100) == "warn"
    assert spread.level(0.06, 100) is None


def test_a_run_can_have_diagnostics_of_its_own_which_run_locked(tmp_path):
    made = make_run(tmp_path / "run", 2)
    own = made.folder / "diagnostics"
    own.mkdir()
    (own / "mine.toml").write_text(
        SHARE.format(sql=GOOD)
        + '[dead_groups]\nquestion = "?"\nlayer = "signal"\nsince = 2\nwarn = 0.0\n'
        + 'sql = "SELECT version, 1 AS value, 99 AS n FROM versions"\n'
        + '[thief]\nquestion = "?"\nlayer = "score"\n'
        + "sql = \"SELECT 0 AS version, 0 AS value, 1 AS n FROM read_text('/etc/passwd')\"\n"
        + '[shapeless]\nquestion = "?"\nlayer = "score"\nsql = "SELECT version FROM versions"\n'
        + '[twice]\nquestion = "?"\nlayer = "score"\n'
        + 'sql = "SELECT 0 AS version, 1 AS value, 1 AS n FROM rollouts"\n'
    )
    with Diagnosis(made.folder) as diagnosis:
        found = {one.diagnostic.name: one for one in diagnosis.health().findings}
        behind = diagnosis.behind("low_share", limit=3)
    visible = [kept for kept in made.kept if kept.source != "gate"]
    for reading in found["low_share"].readings:
        rewards = [k.rollout.outcome.reward for k in visible if k.version == reading.version]
        assert reading.n == len(rewards)
        assert reading.value == pytest.approx(sum(r < 0.4 for r in rewards) / len(rewards))
    assert len(behind.rows) == 3
    replaced = found["dead_groups"]
    assert [(r.version, r.level) for r in replaced.readings] == [(2, "warn"), (3, "warn")]
    assert not replaced.diagnostic.built_in
    assert "read_text" in found["thief"].error
    assert "value" in found["shapeless"].error
    assert "several rows" in found["twice"].error


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", r"begin with \[NAME\]"),
        ("[a", "not TOML"),
        (SHARE.format(sql=GOOD).replace("0.2", "0.05"), "critical"),
        (SHARE.format(sql=GOOD).replace("signal", "noise"), "layer"),
        (SHARE.format(sql=GOOD).replace("warn", "warm"), "warm"),
        (SHARE.format(sql=GOOD).replace("low_share", "Low-Share"), "name"),
    ],
)
def test_mistakes_in_a_file_are_named(tmp_path, text, said):
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(UserError, match=said) as error:
        read_file(tmp_path / "bad.toml")
    assert "bad.toml" in str(error.value)


def test_the_example_of_the_documentation_works(tmp_path):
    made = make_run(tmp_path / "run", 4, versions=2)
    page = (Path(__file__).parents[2] / "docs" / "diagnostics.md").read_text("utf-8")
    (made.folder / "diagnostics").mkdir()
    (made.folder / "diagnostics" / "example.toml").write_text(
        page.split("```toml\n")[1].split("```")[0]
    )
    with Diagnosis(made.folder) as diagnosis:
        finding = diagnosis.health(["long_failures"]).findings[0]
    assert finding.diagnostic.validation is not None
    assert [reading.version for reading in finding.readings] == [0, 1]
    documented = page.split("## The built-in suite")[1]
    assert all(f"`{name}`" in documented for name in load_suite().diagnostics)


def test_a_file_cannot_claim_to_be_built_in(tmp_path):
    (tmp_path / "own.toml").write_text(SHARE.format(sql=GOOD) + "built_in = true\n")
    assert not read_file(tmp_path / "own.toml")[0].built_in


def test_trends_are_of_all_readings(tmp_path):
    made = make_run(tmp_path / "run", 3)
    with Diagnosis(made.folder) as diagnosis:
        finding = diagnosis.health(["answer_tokens"]).findings[0]
    values = [reading.value for reading in finding.readings]
    assert finding.trend is not None
    assert finding.trend.versions == 4
    assert finding.trend.change == pytest.approx(values[3] - values[0])
    expected = (1.5 * (values[3] - values[0]) + 0.5 * (values[2] - values[1])) / 5
    assert finding.trend.slope == pytest.approx(expected)
    assert trend_of(finding.readings[:1]) is None
