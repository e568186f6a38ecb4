"""Measuring and asking a real model, the shipped pocket policy, from the command line."""

import json
import signal
import subprocess
import sys
import time

import pytest
import typer
from processes import coevolve
from typer.testing import CliRunner

from coevolve.cli.ask import ask
from coevolve.cli.evaluate import evaluate
from coevolve.cli.show import visible
from coevolve.core.errors import UserError

TIMINGS = ("seconds", "tokens_per_second")
SMALL = ("--split", "dev", "-k", "size3.data_ratio=1")
MEASURE = ("-p", "pocket", *SMALL, "--count", 12, "--samples", 2, "--batch", 2, "--json")

app = typer.Typer()
app.command("evaluate")(evaluate)
app.command("ask")(ask)


def run(*words):
    """A command in this process, where the model's libraries are loaded only once."""
    return CliRunner().invoke(app, [str(word) for word in words])


def good(*words):
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*words):
    """The error that main() prints in one line before it exits with 2."""
    result = run(*words)
    assert isinstance(result.exception, UserError), result.output
    return str(result.exception)


def command(*words):
    return [sys.executable, "-m", "coevolve", "evaluate", *map(str, words)]


def bad(*words):
    result = coevolve("evaluate", *words)
    assert (result.returncode, result.stdout) == (2, "")
    assert "Traceback" not in result.stderr
    return result.stderr


def without_timings(text):
    return {key: value for key, value in json.loads(text).items() if key not in TIMINGS}


@pytest.fixture(scope="module")
def measured():
    """What an evaluation without interruption says."""
    return good("evaluate", *MEASURE)


def test_a_model_is_measured_with_everything_a_script_needs(measured):
    found = json.loads(measured)
    assert (found["n"], found["tasks"], found["samples"]) == (24, 12, 2)
    assert (found["policy"], found["style"], found["temperature"]) == ("pocket", "cells", 1.0)
    assert found["source"]["knobs"] == {"size3.data_ratio": 1.0}
    assert 0 < found["valid"] <= 1
    assert found["optimal"] <= found["valid"]
    assert set(found["pass_at"]) == {"1", "2"}
    assert found["pass_at"]["1"]["rate"] == pytest.approx(found["valid"])
    assert found["pass_at"]["2"]["rate"] >= found["valid"]
    low, high = found["valid_interval"]
    assert low < found["valid"] <= high
    assert sum(found["failures"].values()) == round(24 * (1 - found["valid"]))
    assert found["mean_completion_tokens"] > 2
    assert found["tokens_per_second"] > 1
    assert found["mean_reward_interval"][0] <= found["mean_reward"]
    assert sum(bucket["n"] for bucket in found["buckets"]) == 24


def test_killed_at_any_instant_it_goes_on_to_the_same_numbers(measured, tmp_path):
    folder = tmp_path / "deep" / "kept"
    words = command(*MEASURE, "--output", folder)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while not (folder / "part-00000.parquet").exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=60) == -signal.SIGKILL
    kept = {path.name: path.stat().st_mtime_ns for path in folder.glob("part-*.parquet")}
    assert 1 <= len(kept) < 12
    resumed = good("evaluate", *MEASURE, "--output", folder)
    assert without_timings(resumed) == without_timings(measured)
    parts = {path.name: path.stat().st_mtime_ns for path in folder.glob("part-*.parquet")}
    assert len(parts) == 12
    assert kept.items() <= parts.items()
    assert without_timings(good("evaluate", *MEASURE, "-o", folder)) == without_timings(measured)
    assert "seed 0, not 1" in refused("evaluate", *MEASURE, "-o", folder, "--seed", 1)
    message = bad("-p", "greedy", *MEASURE[2:], "-o", folder)
    assert "holds another evaluation: policy 'pocket', not 'greedy'" in message


def test_several_policies_have_a_folder_each(tmp_path):
    words = ("evaluate", "-p", "all", "-p", "pocket", *SMALL, "--count", 5, "-o", tmp_path)
    first, second = good(*words, "--json"), good(*words, "--json")
    names = [found["policy"] for found in json.loads(first)]
    assert names[0] == "oracle"
    assert names[-1] == "pocket"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    assert [{**one, **dict.fromkeys(TIMINGS)} for one in json.loads(first)] == [
        {**one, **dict.fromkeys(TIMINGS)} for one in json.loads(second)
    ]
    assert {one["policy"]: one["temperature"] for one in json.loads(first)} == {
        name: 0.0 if name == "pocket" else 1.0 for name in names
    }


def test_several_policies_stand_side_by_side_by_label():
    found = good("evaluate", "-p", "oracle", "-p", "random", *SMALL, "--count", 8)
    assert "valid % by size" in found
    row = next(line for line in found.splitlines() if line.startswith("┃ size"))
    assert row.index("oracle") < row.index("random")


def test_tables_say_what_n_is():
    shown = good("evaluate", "-p", "random", *SMALL, "--count", 6, "-n", 4)
    assert "n = 6 tasks x 4 samples" in " ".join(shown.split())
    assert "k = 4" in shown
    assert "wait_subset" not in shown


def test_mistakes_get_one_clear_line(tmp_path):
    assert "by `coevolve final`" in bad("-p", "oracle", "--split", "test")
    message = bad("-p", "pockt")
    assert "unknown policy 'pockt'; did you mean 'pocket'?" in message
    assert "Known: greedy, oracle, pocket" in message
    assert "no model 'no/such/folder'" in refused("evaluate", "-p", "no/such/folder", *SMALL)
    knob = ("--knob", "size3.data_ratio=1")
    assert "add --split dev" in refused("evaluate", "-p", "oracle", *knob)
    both = refused("evaluate", "-p", "oracle", "--suite", "benchmark", "--split", "dev")
    assert "--suite and --split both name tasks" in both
    assert "unknown prompt style" in refused("evaluate", "-p", "oracle", *SMALL, "--style", "poem")
    warm = ("-p", "oracle", *SMALL, "--count", 2, "--temperature", "inf")
    assert "--temperature inf" in refused("evaluate", *warm)
    (tmp_path / "file").write_text("x")
    into = ("evaluate", "-p", "oracle", *SMALL, "--count", 2, "-o", tmp_path / "file" / "x")
    assert "cannot write to" in refused(*into)


def test_ask_shows_task_prompt_answer_verdict_and_oracle(tmp_path):
    picture = tmp_path / "a.svg"
    shown = good("ask", "-p", "pocket", *SMALL[2:], "--seed", 4, "--picture", picture)
    assert "(dev: size 3" in shown
    assert "--- user (cells)\n3x3" in shown
    assert "--- pocket\n" in shown
    assert "--- verdict\n" in shown
    assert ", reward " in shown
    assert "--- the oracle\n" in shown
    assert picture.read_text().startswith("<svg")


def test_ask_explains_failures():
    words = ("-p", "random", "-k", "size8.data_ratio=1", "-k", "agents8.share=1", "-n", 2)
    shown = good("ask", *words)
    assert "--- random, sample 2 of 2" in shown
    assert "invalid, reward 0 (accuracy 0, length 0)" in shown
    assert "failure  conflict: two agents are in one cell at one time, or swap cells" in shown


def test_ask_as_json_about_a_task_of_a_file(tmp_path):
    found = json.loads(good("ask", "-p", "pocket", *SMALL, "--samples", 3, "--json"))
    assert (found["temperature"], len(found["attempts"])) == (1.0, 3)
    assert found["task"]["split"] == "dev"
    assert {"answer", "valid", "optimal", "reward", "failure", "meaning"} <= set(
        found["attempts"][0]
    )
    path = tmp_path / "tasks.jsonl"
    board = {"rows": ["..."], "starts": [[0, 0]], "goals": [[0, 2]]}
    lines = [{**board, "id": "a"}, {**board, "id": "b"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    few = json.loads(good("evaluate", "--tasks", path, "--count", 1, "-p", "greedy", "--json"))
    assert few["n"] == 1  # of two
    second = json.loads(good("ask", "--tasks", path, "--number", 2, "--json"))
    assert second["task"]["id"] == "b"
    assert second["attempts"][0]["optimal"]
    assert second["attempts"][0]["answer"] == second["oracle"]
    assert "has 2 tasks; --number 3" in refused("ask", "--tasks", path, "--number", 3)
    assert "by `coevolve final`" in refused("ask", "--split", "test")
    assert "unknown policy 'all'" in refused("ask", "-p", "all")


def test_control_characters_of_an_answer_are_spelled_out():
    assert visible("a\x1b[2J\nb\x07\u202e") == "a\\x1b[2J\nb\\x07\\u202e"
