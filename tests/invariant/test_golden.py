"""The one loop takes the decisions that the two loops before it took, wherever it was meant to.

tests/golden holds these decisions, with the rates, and the shares that follow from rates, of tasks
in the splits of today; those of a real engine are the one loop's own. Where one differs, the reason
is named here.
"""

import platform
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from replay import decisions, plan_of, records, run_of

from coevolve.loop.create import create
from coevolve.loop.loop import run_loop

FIELDS = ("parent", "author", "factor", "gate", "verdict", "reward", "recipe", "knobs")
ROUNDS, TREES = records("rounds-pretended"), records("tree-pretended")
LONG = ("rollback", "merge", "merge with the better one", "merge of knobs")
"""That take long."""
DIFFERENT = {
    ("rounds", "stopped"): "a stage that was stopped is taken back, as in trees",
    ("rounds", "slow fall"): "the best version that was kept is handed out, and not the last",
    ("rounds", "probed"): "bets on knobs are compared in pairs, and none for what is solved",
    ("tree", "knobs, unprobed"): "engineers of knobs see the knobs that were trained on",
    ("tree", "merge of knobs"): "the same",
    ("tree", "rules"): "rules have learned more skills",
    ("tree", "noise floor"): "intervals that know the noise of training stand in for a floor",
}
"""In what the one loop was meant to be another."""
VARIANTS = [
    pytest.param(kind, variant, marks=[pytest.mark.slow] if variant in LONG else [])
    for kind, every in (("rounds", ROUNDS), ("tree", TREES))
    for variant in every
    if (kind, variant) not in DIFFERENT
]


@pytest.fixture(autouse=True)
def as_far_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trust region was as wide as the plan said, whatever training had shown."""
    monkeypatch.setattr("coevolve.engineers.view.widened", lambda reach, cells: reach)


def same(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert len(found) == len(expected)
    for new, old in zip(found, expected, strict=True):
        for field in FIELDS:
            if old.get("merged") and field == "factor":
                continue  # a merge has no patch of its own
            assert new[field] == old[field], field


@pytest.mark.parametrize(("kind", "variant"), VARIANTS)
def test_decisions_are_what_they_were(kind: str, variant: str, tmp_path: Path) -> None:
    record = (ROUNDS if kind == "rounds" else TREES)[variant]
    lineage = run_loop(run_of(record["how"], tmp_path / "run"))
    same(decisions(lineage), record["trained"])
    assert lineage.base
    assert {"valid": lineage.base.valid, "n": lineage.base.n} == record["base"]
    assert (lineage.best.version if lineage.best else None) == record["end"]


def test_a_stopped_stage_is_taken_back_where_training_goes_on(tmp_path: Path) -> None:
    record = ROUNDS["stopped"]
    lineage = run_loop(run_of(record["how"], tmp_path / "run"))
    found, expected = decisions(lineage), record["trained"]
    assert [one["verdict"] for one in expected] == [
        "kept", "stopped", "kept", "reverted", "kept",
    ]  # fmt: skip
    assert [one["verdict"] for one in found] == ["kept", "reverted", "kept", "reverted", "kept"]
    assert [one["knobs"] for one in found] == [one["knobs"] for one in expected]


@pytest.mark.parametrize(
    "variant", ["knobs, unprobed", pytest.param("merge of knobs", marks=pytest.mark.slow)]
)
def test_knobs_in_trees_are_proposed_for_what_was_trained(variant: str, tmp_path: Path) -> None:
    record = TREES[variant]
    lineage = run_loop(run_of(record["how"], tmp_path / "run"))
    found, expected = decisions(lineage), record["trained"]
    assert [one["author"] for one in found] == [one["author"] for one in expected]
    assert [one["verdict"] for one in found] == [one["verdict"] for one in expected]
    shares = {name for one in found for name in one["knobs"] if name.endswith("data_ratio")}
    used = {name for name in lineage.plan.knobs if name.endswith("data_ratio")}
    assert used <= shares


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rounds-real", "tree-real"])
def test_decisions_and_weights_of_a_real_engine_are_what_they_were(
    name: str, tmp_path: Path
) -> None:
    pytest.importorskip("trl", reason="training needs the extra `train`")
    record = records(name)
    plan = plan_of({"asks_after": 0, **record["how"]["plan"]} if name == "tree-real" else
                   record["how"]["plan"])  # fmt: skip
    engineers = record["how"]["plan"].get("engineers") or record["how"]["plan"]["trainers"]
    run = create(plan.model_copy(update={"engineers": tuple(engineers)}), tmp_path / "run")
    lineage = run_loop(run)
    found, expected = decisions(lineage), record["trained"]
    for new, old in zip(found, expected, strict=True):
        assert {name: new[name] for name in FIELDS} == {name: old[name] for name in FIELDS}
    if record["made_with"] == made_with():
        for number, old in enumerate(expected):
            assert weights(tmp_path / "run", number) == old["weights"]


def weights(folder: Path, number: int) -> str:
    file = folder / "versions" / f"{number:02d}" / "stage" / "policy" / "model.safetensors"
    return sha256(file.read_bytes()).hexdigest()


def made_with() -> dict[str, str]:
    import torch
    import transformers
    import trl

    versions = {"torch": torch, "transformers": transformers, "trl": trl}
    return {"machine": platform.machine(), **{n: m.__version__ for n, m in versions.items()}}
