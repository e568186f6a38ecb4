"""`coevolve diagnose` as people type it."""

import json

import pytest
from processes import coevolve

pytest.importorskip("duckdb", reason="diagnostics need the extra `train`")

from synthetic import make_run


def diagnose(*words):
    return coevolve("diagnose", *words, timeout=120)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "run", 1).folder


def test_the_report_shows_layers_alarms_and_the_way_to_the_rollouts(run):
    done = diagnose(run)
    assert done.returncode == 0, done.stderr
    for word in ("score", "signal", "behaviour", "version", "dead_groups", "critical:"):
        assert word in done.stdout
    assert f"coevolve diagnose {run} --rollouts history_read --version" in done.stdout
    assert diagnose(run, "--strict").returncode == 1


def test_the_same_as_json_and_for_one_version(run):
    facts = json.loads(diagnose(run, "--json").stdout)
    assert len(facts["findings"]) == 55
    assert {"diagnostic", "threshold", "value", "n", "words"} <= facts["alarms"][0].keys()
    one = json.loads(diagnose(run, "--json", "--version", 2, "--only", "dead_groups").stdout)
    assert [reading["version"] for reading in one["findings"][0]["readings"]] == [2]


def test_rollouts_behind_an_alarm(run):
    done = diagnose(run, "--rollouts", "truncation", "--limit", 2)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("assistant:") >= 2
    facts = json.loads(diagnose(run, "--rollouts", "truncation", "--json").stdout)
    assert len(facts["rollouts"]) == 10
    assert all(row["stop"] != "end" and row["messages"] for row in facts["rollouts"])


def test_sql_runs_locked(run):
    done = diagnose(run, "--sql", "SELECT DISTINCT source FROM rollouts ORDER BY 1", "--json")
    assert json.loads(done.stdout)["rows"] == [["dev"], ["probe"], ["train"]]
    refused = diagnose(run, "--sql", "COPY rollouts TO 'x.csv'")
    assert refused.returncode == 2
    assert "only SELECT" in refused.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--only", "dead_group"], "did you mean 'dead_groups'"),
        (["--version", "9"], "there are 0, 1, 2, 3"),
        (["--rollouts", "entropy"], "about all rollouts"),
        (["--sql", "SELECT 1", "--only", "entropy"], "name one of them"),
    ],
)
def test_mistakes_are_named(run, words, said):
    done = diagnose(run, *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_that_is_no_run(tmp_path):
    assert "not the folder of a run" in diagnose(tmp_path / "none").stderr
    assert "not the folder of a run" in diagnose(tmp_path).stderr
