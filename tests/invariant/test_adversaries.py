"""A bad engineer is harmless: each, through real trainings, ends no worse than `fixed`."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="training needs the extra `train`")

from coevolve.engineers.adversaries import ADVERSARIES, HARMFUL
from coevolve.engines.trl.engine import TrlEngine
from coevolve.evaluation.difference import by_task, paired
from coevolve.harness.plan import make_plan
from coevolve.loop.create import create
from coevolve.loop.loop import run_loop
from coevolve.loop.run import Run

QUICK = ("bad-largest", "bad-nan", "bad-injected", "bad-silent")
"""One of each kind; the others take as long and are tried by `make slow`."""
SOME = [
    name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ADVERSARIES
]
SMALL = {f"size{size}.data_ratio": 0.25 for size in (3, 4, 5, 10)}


def finished(folder: Path, engineer: str, **changes: Any) -> Run:
    """Two short versions of the pocket policy, the second designed by an engineer."""
    values = {
        "name": "bad", "versions": 2, "start": "default", "knobs": SMALL, "engineers": [engineer],
        "patience_s": 20.0,
        "recipe": {"steps": 2, "tasks": 4, "group": 4, "max_tokens": 96, "learning_rate": 3e-5},
        "target": {"dev": 8, "gate": 64, "knobs": SMALL, "max_tokens": 96},
        "backtest": {"tasks": 8, "samples": 4},
        **changes,
    }  # fmt: skip
    run = create(make_plan(values, "test"), folder, say=print, engine=TrlEngine())
    run_loop(run)
    return run


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return finished(tmp_path_factory.mktemp("fixed") / "run", "fixed")


def gate_rates(run: Run) -> list[float]:
    """Which gate tasks the policy that a run ends with solves."""
    best = run.lineage.best
    assert best
    return by_task(run.gate(best.version))


@pytest.mark.parametrize("name", SOME)
def test_no_adversary_ends_worse_than_doing_nothing(tmp_path: Path, fixed: Run, name: str) -> None:
    patience = {"patience_s": 1.0} if name == "bad-silent" else {}
    run = finished(tmp_path / "run", name, **patience)
    assert run.ledger.state() == "done"
    change = paired(gate_rates(fixed), gate_rates(run), seed=0)
    assert change.high >= -run.plan.gate.margin
    generation = run.lineage.generations[1]
    (proposal,) = generation.proposed[0].proposals[name]
    assert bool(proposal.failure) == (name not in HARMFUL and name != "bad-injected")
    assert bool(proposal.patch) != bool(proposal.failure)
    assert generation.tests
    assert len(generation.tests.tried) == bool(proposal.patch)
    for one in generation.tests.tried:  # what is in force was probed beside it
        assert one.backtest is None or "worth_before" in one.backtest.measures
    first, second = (one.harness.knobs for one in run.lineage.versions)
    moved = [abs(second[knob] - first[knob]) for knob in first if "hole" in knob]
    assert max(moved) <= run.plan.reach * 0.5 + 1e-9


def test_unguarded_a_harmful_proposal_is_trained_on(tmp_path: Path) -> None:
    """The guards are what makes the difference: without them the same proposal is taken whole."""
    off = {"gate": {"on": False}, "backtest": {"on": False}, "reach": 1.0}
    version = finished(tmp_path / "run", "bad-largest", **off).lineage.versions[1]
    assert version.author == "bad-largest"
    assert version.harness.knobs["size10.data_ratio"] == 1
    assert version.verdict == "kept"
