"""The commands on programming tasks: evaluate, make, show, solve, verify, and a run."""

import json
import shutil
from pathlib import Path

import pytest
from processes import coevolve

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

EXPERIMENT = """
name = "programs"
domain = "code"
versions = 2
engineers = ["frontier"]
[recipe]
steps = 1
tasks = 2
group = 4
max_tokens = 24
[target]
dev = 8
gate = 8
max_tokens = 24
[backtest]
tasks = 4
samples = 2
"""


def test_scripts_are_measured() -> None:
    words = ("-p", "oracle", "-p", "cheater", "--split", "dev", "--count", "6", "--json")
    done = coevolve("evaluate", "-d", "code", *words)
    assert done.returncode == 0, done.stderr[-2000:]
    facts = json.loads(done.stdout)
    rates = {found["policy"]: found["valid"] for found in facts}
    assert rates == {"oracle": 1.0, "cheater": 0.0}


def test_tasks_are_made_shown_and_verified(tmp_path: Path) -> None:
    tasks, answers = tmp_path / "tasks.jsonl", tmp_path / "answers.jsonl"
    words = ("-n", "2", "-k", "large.share=0", "-o", str(tasks))
    assert coevolve("tasks", "generate", "-d", "code", *words).returncode == 0
    shown = coevolve(
        "tasks", "show", str(tasks), "-d", "code", "--picture", str(tmp_path / "t.svg")
    )
    assert "8 of 8 tests passed" in shown.stdout
    assert (tmp_path / "t.svg").read_text().startswith("<svg")
    solved = coevolve("tasks", "solve", str(tasks), "-d", "code", "--json")
    lines = [json.loads(line) for line in solved.stdout.splitlines()]
    assert all(line["passed"] == line["total"] for line in lines)
    with answers.open("w") as file:
        for line in lines:
            text = f"```python\n{line['solution']}\n```"
            file.write(json.dumps({"id": line["id"], "answer": text}) + "\n")
    found = coevolve("tasks", "verify", str(tasks), str(answers), "-d", "code", "--json")
    assert [json.loads(line)["optimal"] for line in found.stdout.splitlines()] == [True, True]


def test_a_run_goes_through_its_versions(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="training needs the extra `train`")
    (tmp_path / "code.toml").write_text(EXPERIMENT)
    done = coevolve("run", str(tmp_path / "code.toml"), "-o", str(tmp_path / "run"), "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    facts = json.loads(done.stdout)
    assert [past["number"] for past in facts["versions"]] == [0, 1]
    assert all(past["verdict"] for past in facts["versions"])


def test_without_bubblewrap_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    done = coevolve("evaluate", "-d", "code", "-p", "oracle", "--split", "dev", "--count", "2")
    assert done.returncode == 2
    assert done.stderr.count("\n") <= 3
    assert "apt-get install bubblewrap" in done.stderr.replace("\n", " ")
