"""`coevolve evolve` end to end: a small real tree, and what follows from it."""

import re
from pathlib import Path

import pytest
from processes import facts_of

from coevolve.cli.evolve import evolve
from coevolve.core.errors import CoevolveError, UserError
from coevolve.domains.registry import get_domain
from coevolve.harness.plan import PRESETS, load_plan

pytest.importorskip("trl", reason="training needs the extra `train`")

TREE = """
name = "small"
versions = 2
engineers = ["rules"]
factors = ["all"]
start_from = "base"
accept = "better"
learn = true
asks_after = 0
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


@pytest.mark.parametrize("name", ["tree", "tree-math", "tree-code"])
def test_built_in_trees_are_sound(name: str) -> None:
    found = load_plan(name, {})
    assert found.versions >= 5
    space = get_domain(found.domain).space
    same = space.parse(found.knobs) == space.parse(found.target.knobs)
    assert same == (name != "tree"), "the tree has to find its target"


def test_a_tree_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert set(PRESETS) == {"rounds", "tree", "tree-math", "tree-code"}
    with pytest.raises(UserError, match="tree-math"):
        load_plan("tree-maht", {})
    with pytest.raises(UserError, match="cannot read"):
        load_plan(str(tmp_path / "tree.toml"), {})


def check_tree(folder: Path, *words: object) -> None:
    (folder / "small.toml").write_text(TREE)
    run = folder / "runs" / "run"
    facts = facts_of("evolve", folder / "small.toml", "-o", run, *words)
    assert len(facts["versions"]) == 2
    assert facts["versions"][0]["verdict"] == "root"
    assert (facts["best"], facts["policy"]) == (None, "pocket")  # a step of training is no gain
    assert facts["words"].startswith("no version is better than no training: ")
    assert facts["base"]["n"] == 24
    assert facts_of("resume", run) == facts
    assert facts_of("scorecard", run)["lines"]
    assert facts_of("final", run, "--tasks", 16)["last"]["rates"]["valid"]["n"] == 16
    status = facts_of("status", run)
    assert status["state"] == "done"


def test_a_tree_grows_and_is_judged(tmp_path: Path) -> None:
    check_tree(tmp_path)


@pytest.mark.slow
def test_a_tree_grows_in_processes(tmp_path: Path) -> None:
    check_tree(tmp_path, "--at-once", 2)


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("versions = 2", "versions = 0", "versions = 0"),
        ("steps = 1", "stepps = 1", "recipe.stepps = 1: there is no such setting; did you"),
        ('engineers = ["rules"]', 'engineers = ["ruels"]', "did you mean 'rules'"),
        ('engineers = ["rules"]', "engineers = []", "engineers"),
        ('factors = ["all"]', 'factors = ["recipe.klx"]', "did you mean 'recipe.kl'"),
        ('accept = "better"', 'accept = "best"', "accept"),
        ("asks_after = 0", 'domain = "laek"', "did you mean 'lake'"),
        ("asks_after = 0", 'policy = "pokcet"', "no model 'pokcet'"),
        ("asks_after = 0", 'policy = "greedy"', "'greedy' cannot be trained"),
        ("asks_after = 0", 'style = "celss"', "did you mean 'cells'"),
        ("asks_after = 0", 'engine = "tlr"', "did you mean 'trl'"),
        ("asks_after = 0", 'reward = "reward + nothing"', "nothing"),
        ('"agents2.share" = 1.0', '"agents2.shares" = 1.0', "agents2.share"),
        ("max_tokens = 64\nknobs", 'max_tokens = 64\nknobs = { "size3.ratio" = 1.0 }#', "size3"),
    ],
)
def test_a_mistake_gets_one_line_and_begins_nothing(
    tmp_path: Path, right: str, wrong: str, said: str
) -> None:
    (tmp_path / "bad.toml").write_text(TREE.replace(right, wrong))
    with pytest.raises(CoevolveError, match=re.escape(said)):
        evolve(str(tmp_path / "bad.toml"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_null_prints_its_rates() -> None:
    found = facts_of("null", "--tasks", 16, "--samples", 1, "--patches", 10)
    assert found["false_keeps"]["n"] == 10
