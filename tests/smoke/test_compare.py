"""`coevolve compare` end to end: a small real comparison, its files, and what it refuses."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from processes import coevolve
from typer.testing import CliRunner

from coevolve.cli.comparison_table import about
from coevolve.cli.main import app
from coevolve.core.errors import UserError
from coevolve.harness.comparison import SHIPPED

SMALL = """
name = "small"
seeds = 1
tasks = 16
[plan]
versions = 1
knobs = { "size3.data_ratio" = 0.5, "size4.data_ratio" = 0.5, "agents2.share" = 1.0 }
recipe = { steps = 9, tasks = 2, group = 4, max_tokens = 64 }
[plan.target]
dev = 8
gate = 8
max_tokens = 64
knobs = { "size3.data_ratio" = 0.5, "size4.data_ratio" = 0.5 }
[arms]
fixed = { engineers = ["fixed"] }
frontier = { engineers = ["frontier"] }
"""


def test_a_small_comparison(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="training needs the extra `train`")
    (tmp_path / "small.toml").write_text(SMALL)
    words = ("compare", str(tmp_path / "small.toml"), "--steps", "2", "-o", str(tmp_path / "out"))
    done = coevolve(*words, "--at-once", "2", "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    facts = json.loads(done.stdout)
    assert {row["arm"] for row in facts["table"]} == {"fixed", "frontier", "untrained"}
    assert {row["valid"]["n"] for row in facts["table"]} == {16}
    by_arm = {result["arm"]: result for result in facts["results"]}
    assert by_arm["fixed"]["train_rollouts"] == by_arm["frontier"]["train_rollouts"] == 16
    assert by_arm["fixed"]["tasks_hash"] == by_arm["untrained"]["tasks_hash"]
    assert by_arm["fixed"]["policy"] in ("run:versions/00/stage/policy", "pocket")
    assert "--steps 2" in facts["command"]
    assert json.loads((tmp_path / "out/comparison.json").read_text()) == facts
    assert (tmp_path / "out/comparison.png").stat().st_size > 10_000
    assert "fixed/seed-0: versions/00, train" in done.stderr
    again = coevolve(*words)
    assert "3 of 3 were finished before" in again.stderr
    assert "frontier" in again.stdout
    other = coevolve(*words[:-4], "--steps", "3", "-o", str(tmp_path / "out"))
    assert other.returncode == 2
    assert "plan.recipe.steps 2, not 3" in other.stderr


KINDS = """
name = "kinds"
seeds = 1
tasks = 24
[plan]
versions = 4
factors = ["all"]
reach = 1.0
knobs = { "size3.data_ratio" = 0.5, "size4.data_ratio" = 0.5, "agents2.share" = 1.0 }
recipe = { steps = 3, tasks = 4, group = 4, max_tokens = 64 }
backtest = { tasks = 8, samples = 2 }
gate = { repeats = 1, twins = 1 }
[plan.target]
dev = 24
gate = 24
temperature = 1.0
max_tokens = 64
knobs = { "size3.data_ratio" = 0.5, "size4.data_ratio" = 0.5 }
[arms]
fixed = { engineers = ["fixed"], factors = ["knobs"] }
tree = { engineers = ["rules"], start_from = "base", accept = "better", versions = 3 }
search = { engineers = ["random-search"], start_from = "base", accept = "better", versions = 3 }
score-only = { engineers = ["rules"], start_from = "base", accept = "higher", width = 2 }
"""


def table_of(folder: Path) -> list[dict[str, Any]]:
    """What a comparison came to, without how long it took."""
    rows: list[dict[str, Any]] = json.loads((folder / "comparison.json").read_text())["table"]
    for row in rows:
        del row["totals"]["seconds"]
    return rows


@pytest.mark.slow
def test_rounds_trees_and_searches_in_one_table_and_kills_change_nothing(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="training needs the extra `train`")
    (tmp_path / "kinds.toml").write_text(KINDS)
    words = ("compare", tmp_path / "kinds.toml", "--at-once", "2")
    whole = coevolve(*words, "-o", tmp_path / "whole", timeout=1_200)
    assert whole.returncode == 0, whole.stderr[-2000:]
    rows = table_of(tmp_path / "whole")
    assert {row["arm"] for row in rows} == {
        "untrained", "fixed", "tree", "search", "score-only",
    }  # fmt: skip
    killed = 0
    for phase in ("versions/00/train.json", "versions/01/train.json", "versions/02/dev.json"):
        process = subprocess.Popen(
            [sys.executable, "-m", "coevolve", *words, "-o", tmp_path / "killed"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        while process.poll() is None and not list((tmp_path / "killed").glob(f"*/seed-0/{phase}")):
            time.sleep(0.05)
        killed += process.poll() is None
        process.kill()
        process.wait()
    assert killed
    again = coevolve(*words, "-o", tmp_path / "killed", timeout=1_200)
    assert again.returncode == 0, again.stderr[-2000:]
    assert table_of(tmp_path / "killed") == rows


def said_by(*words: str) -> str:
    """What a command prints, in this process."""
    return CliRunner().invoke(app, ["compare", *words], catch_exceptions=False).stdout


def test_what_would_run_is_shown() -> None:
    plan = said_by("main", "--dry-run", "--seeds", "2", "-a", "fixed", "-a", "bandit", "--json")
    facts = json.loads(plan)
    assert facts["seeds"] == [0, 1]
    assert facts["rollouts_per_seed"]["bandit"] == {"train": 4608, "probe": 768, "measure": 2900}
    assert facts["rollouts"] == 2 * (300 + 768 + 2 * (4608 + 2900))
    shown = coevolve("compare", "gate", "--dry-run").stdout
    assert "random-unguarded" in shown
    assert "4,608" in shown
    listed = json.loads(said_by("--list", "--json"))
    assert set(listed) == {
        "main", "language", "context", "gate", "adversaries", "kinds", "climb", "overshoot",
        "random-start", "paper", "trees", "trees-math", "trees-code",
    }  # fmt: skip


def test_the_list_tells_whole_sentences() -> None:
    told = " ".join(said_by("--list").split())
    for name, file in SHIPPED.items():
        said = about(file)
        assert said.endswith((".", "?"))
        assert f"{name}: {said} arms: " in told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("mian",), "did you mean 'main'"),
        (("main", "--arm", "frontir"), "did you mean 'frontier'"),
        (("main", "--seeds", "x"), "--seeds 'x' is neither"),
        (("main", "--recipe", "step=2"), "did you mean 'steps'"),
        (("main", "--recipe", "steps"), "is not NAME=VALUE"),
        (("main", "--steps", "2", "-r", "learning_rate=-1"), "recipe.learning_rate"),
        (("main", "--seeds", "-1"), "seeds = -1: give how many, 1 or more"),
        (("main", "--policy", "nope"), "no model 'nope'"),
        (("main", "--policy", "greedy"), "policy 'greedy' cannot be trained"),
    ],
)
def test_mistakes_are_named(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(UserError) as error:
        said_by(*words, "--dry-run")
    assert said in str(error.value)


def test_a_dry_run_refuses_what_a_run_would(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\nseeds = 1\n[arms]\nfixed = { engineers = ["fixd"] }\n')
    with pytest.raises(UserError, match=r"unknown engineer 'fixd'; did you mean 'fixed'.*policy"):
        said_by(str(file), "--dry-run")
    file.write_text('name = "mine"\nseeds = 1\n[arms]\nfixed = { engineers = "fixed" }\n')
    with pytest.raises(UserError, match="engineers = 'fixed': give a list"):
        said_by(str(file), "--dry-run")
    rows = [{"question": f"Say {n:03d} in words.", "answer": f"{n}"} for n in range(100)]
    (tmp_path / "few.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    file.write_text(
        f'name = "mine"\nseeds = 1\ntasks = 20\n[plan]\ndomain = "data:{tmp_path / "few.jsonl"}"\n'
        'target = { dev = 8 }\n[arms]\nfixed = { engineers = ["fixed"] }\n'
    )
    with pytest.raises(UserError, match=r"has \d+ dev tasks, 8 of which .* `tasks` or target.dev"):
        said_by(str(file), "--dry-run")


@pytest.mark.parametrize(
    ("shared", "said"),
    [
        ('style = "nonsense"', "unknown prompt style 'nonsense'"),
        ('target = { knobs = { "nonsense.knob" = 1 } }', "nonsense.knob"),
        ('policy = "greedy"', "policy 'greedy' cannot be trained"),
    ],
)
def test_what_no_arm_can_do_leaves_no_folder(tmp_path: Path, shared: str, said: str) -> None:
    file, out = tmp_path / "mine.toml", tmp_path / "out"
    file.write_text(f'name = "mine"\nseeds = 1\n[plan]\n{shared}\n[arms]\nfixed = {{}}\n')
    for words in (["--dry-run"], ["-o", str(out)]):
        with pytest.raises(UserError, match=said):
            said_by(str(file), *words)
    assert not out.exists()


def test_no_ray_cluster_is_said(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs the extra `cluster`")
    done = coevolve(
        "compare", "main", "-a", "fixed", "--ray", "127.0.0.1:1", "-o", str(tmp_path / "out")
    )
    assert done.returncode == 2
    assert "no Ray cluster at '127.0.0.1:1'" in done.stderr
    assert "Traceback" not in done.stderr
