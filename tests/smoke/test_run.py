"""`coevolve run` end to end on a small plan: versions, verdicts, status, resumption."""

import json
import shutil
from pathlib import Path

import pytest
from processes import coevolve, facts_of

pytest.importorskip("trl", reason="training needs the extra `train`")

PLAN = """
name = "small"
versions = 2
engineers = ["frontier", "learnability"]
knobs = { "size3.data_ratio" = 0.5, "size4.data_ratio" = 0.5, "agents2.share" = 1.0 }
[recipe]
steps = 1
tasks = 2
group = 4
max_tokens = 64
[target]
dev = 16
gate = 24
max_tokens = 64
knobs = { "size3.data_ratio" = 0.5, "size4.data_ratio" = 0.5 }
[backtest]
tasks = 6
samples = 2
"""


def test_a_run_goes_through_its_versions_and_is_found_done(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(PLAN)
    folder = tmp_path / "run"
    done = coevolve("run", str(tmp_path / "small.toml"), "-o", str(folder), "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    facts = json.loads(done.stdout)
    assert [past["number"] for past in facts["versions"]] == [0, 1]
    assert all(past["verdict"] for past in facts["versions"])
    assert Path(facts["policy"]).is_dir() or facts["policy"] == "pocket"
    trained = json.loads((folder / "versions" / "00" / "train.json").read_text())["payload"]
    assert sum(cell["n"] for cell in trained["cells"]) == 8  # 2 tasks, 4 attempts
    assert sum(cell["groups"] for cell in trained["cells"]) == 2
    assert facts_of("resume", folder) == facts
    status = facts_of("status", folder)
    assert status["state"] == "done"
    assert [one["metric"] for one in status["answers"]["learned"]["metrics"]] == [
        "valid",
        "optimal",
    ]
    assert status["answers"]["helped"]["counts"]["made"] > 0
    other = coevolve("run", str(tmp_path / "small.toml"), "-o", str(folder), "--seed", "9")
    assert other.returncode == 2
    assert "seed" in other.stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("versions = 2", "versions = 0"),
        ('engineers = ["frontier", "learnability"]', 'engineers = ["frontir"]'),
        ("steps = 1", "stepps = 1"),
        ("dev = 16", "dev = 'many'"),
    ],
)
def test_mistakes_in_a_plan_are_named(tmp_path: Path, change: str, said: str) -> None:
    (tmp_path / "bad.toml").write_text(PLAN.replace(change, said))
    done = coevolve("run", str(tmp_path / "bad.toml"), "-o", str(tmp_path / "run"))
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert said.split(" =")[0].split("[")[0] in done.stderr or "frontir" in done.stderr
    assert not (tmp_path / "run" / "ledger.db").exists()


def test_a_moved_run_is_extended_and_measured(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(PLAN)
    first, moved = tmp_path / "run", tmp_path / "elsewhere" / "moved"
    plan = [str(tmp_path / "small.toml"), "--versions", "1"]
    assert facts_of("run", *plan, "-o", first)["versions"][0]["verdict"]
    moved.parent.mkdir()
    first.rename(moved)
    facts = facts_of("resume", moved, "--versions", 2)
    assert [one["number"] for one in facts["versions"]] == [0, 1]
    assert facts_of("final", moved, "--tasks", 8)["tasks"] == 8
    assert facts_of("status", moved)["faults"] == []
    inside = [path for path in moved.rglob("*.json") if str(tmp_path) in path.read_text("utf-8")]
    assert not inside, "nothing in the folder names where it lies"
    (gone,) = (moved / "versions" / "01" / "stage").glob("policy")
    shutil.rmtree(gone)
    lost = coevolve("resume", str(moved), "--versions", "3")
    assert lost.returncode == 2 or facts["versions"][1]["verdict"] == "reverted"
    again = coevolve("resume", str(moved), "--retrain", "--json")
    assert again.returncode == 0, again.stderr[-2000:]
    assert "its weights are not those" not in again.stderr
    assert gone.is_dir()


def test_a_plan_is_explained() -> None:
    rows = facts_of("run", "tree", "--explain", "-k", "detour.max=9", "-r", "steps=7", "--seed", 4)
    found = {one["setting"]: one for one in rows}
    assert (found["seed"]["value"], found["seed"]["where"]) == (4, "command line")
    assert found["knobs"]["where"] == found["recipe.steps"]["where"] == "command line"
    assert found["knobs"]["value"]["detour.max"] == 9
    assert found["knobs"]["value"]["agents7.share"] == 0.5, "those of the preset stay"
    assert found["recipe.steps"]["value"] == 7
    assert found["control"] == {"setting": "control", "value": True, "where": "tree.toml"}
    assert found["answer"]["where"] == "default"


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("domain=lak", "unknown domain 'lak'; did you mean 'lake'?"),
        ("policy=pockett", "unknown policy 'pockett'; did you mean 'pocket'?"),
        ('engineers=["fixd"]', "unknown engineer 'fixd'; did you mean 'fixed'?"),
        ("knobs.size3.shar=1", "unknown knob 'size3.shar'"),
        ("recipe.generator=vlm", "recipe.generator = 'vlm': use local, vllm, or the address"),
        ("target.tasks=suite:benchmark", "line: target.tasks and target.knobs both name tasks"),
    ],
)
def test_what_cannot_be_run_is_not_explained(setting: str, said: str) -> None:
    more = ("--set", "target.knobs.agents2.share=1") if "target" in setting else ()
    found = coevolve("run", "rounds", "--explain", "--set", setting, *more)
    assert (found.returncode, found.stdout) == (2, "")
    assert said in found.stderr


def test_the_shipped_plan_is_valid() -> None:
    from coevolve.cli.run import PLAN as NAME
    from coevolve.harness.plan import load_plan

    assert load_plan(NAME).name == "rounds"
