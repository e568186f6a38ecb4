"""`coevolve evolve` end to end: a small real tree, in two processes, and what follows from it."""

import json
from pathlib import Path

import pytest
from processes import coevolve

from coevolve.cli.evolving import evolve
from coevolve.core.errors import UserError

pytest.importorskip("trl", reason="training needs the extra `train`")

TREE = """
name = "small"
versions = 2
asks_after = 0
[harness]
knobs = { "size3.data_ratio" = 0.5, "size4.data_ratio" = 0.5, "agents2.share" = 1.0 }
[harness.recipe]
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


def test_a_tree_grows_and_is_judged(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(TREE)
    folder = tmp_path / "runs" / "run"
    done = coevolve("evolve", tmp_path / "small.toml", "-o", folder, "--at-once", 2, "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    facts = json.loads(done.stdout)
    trained = [one for one in facts["versions"] if one["verdict"] != "rejected"]
    assert len(trained) == 2
    assert facts["versions"][0]["verdict"] == "root"
    assert Path(facts["policy"]).is_dir()
    assert json.loads(coevolve("resume", folder, "--json").stdout) == facts
    card = json.loads(coevolve("scorecard", folder, "--json").stdout)
    assert card
    final = coevolve("final", folder, "--tasks", 16, "--json")
    assert json.loads(final.stdout)["last"]["valid"]["n"] == 16
    assert json.loads(coevolve("status", folder, "--json").stdout)["state"] == "done"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("versions = 2", "versions = 0"),
        ("steps = 1", "stepps = 1"),
        ("asks_after = 0", 'trainers = ["ruels"]'),
        ("versions = 2", ""),
    ],
)
def test_mistakes_get_one_line(tmp_path: Path, change: str, said: str) -> None:
    (tmp_path / "bad.toml").write_text(TREE.replace(change, said))
    with pytest.raises(UserError):
        evolve(tmp_path / "bad.toml", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_null_prints_its_rates() -> None:
    ran = coevolve("null", "--tasks", 16, "--samples", 1, "--patches", 10, "--json")
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert json.loads(ran.stdout)["false_keeps"]["n"] == 10
