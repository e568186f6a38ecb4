"""`coevolve run` end to end on a small experiment: rounds, verdicts, status, resumption."""

import json
from pathlib import Path

import pytest
from processes import coevolve, facts_of

pytest.importorskip("trl", reason="training needs the extra `train`")

EXPERIMENT = """
name = "small"
rounds = 2
start = "default"
engineers = ["frontier", "learnability"]
knobs = { "size3.data_ratio" = 0.5, "size4.data_ratio" = 0.5, "agents2.share" = 1.0 }
[recipe]
steps = 1
tasks = 2
group = 4
max_tokens = 64
[measured]
dev = 16
gate = 24
max_tokens = 64
knobs = { "size3.data_ratio" = 0.5, "size4.data_ratio" = 0.5 }
[backtest]
tasks = 6
samples = 2
"""


def test_a_run_goes_through_its_rounds_and_is_found_done(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(EXPERIMENT)
    folder = tmp_path / "run"
    done = coevolve("run", str(tmp_path / "small.toml"), "-o", str(folder), "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    facts = json.loads(done.stdout)
    assert [past["number"] for past in facts["rounds"]] == [0, 1]
    assert all(past["verdict"] for past in facts["rounds"])
    assert Path(facts["policy"]).is_dir() or facts["policy"] == "pocket"
    trained = json.loads((folder / "rounds" / "00" / "train.json").read_text())["payload"]
    assert sum(cell["n"] for cell in trained["cells"]) == 8  # 2 tasks, 4 attempts
    assert sum(cell["groups"] for cell in trained["cells"]) == 2
    assert facts_of("resume", folder) == facts
    assert facts_of("status", folder)["state"] == "done"
    other = coevolve("run", str(tmp_path / "small.toml"), "-o", str(folder), "--seed", "9")
    assert other.returncode == 2
    assert "seed" in other.stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("rounds = 2", "rounds = 0"),
        ('engineers = ["frontier", "learnability"]', 'engineers = ["frontir"]'),
        ("steps = 1", "stepps = 1"),
        ("dev = 16", "dev = 'many'"),
    ],
)
def test_mistakes_in_an_experiment_are_named(tmp_path: Path, change: str, said: str) -> None:
    (tmp_path / "bad.toml").write_text(EXPERIMENT.replace(change, said))
    done = coevolve("run", str(tmp_path / "bad.toml"), "-o", str(tmp_path / "run"))
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert said.split(" =")[0].split("[")[0] in done.stderr or "frontir" in done.stderr
    assert not (tmp_path / "run" / "ledger.db").exists()


def test_the_shipped_experiment_is_valid() -> None:
    from coevolve.cli.running import DEMO
    from coevolve.harness.experiment import load_experiment

    assert load_experiment(DEMO).name == "demo"
