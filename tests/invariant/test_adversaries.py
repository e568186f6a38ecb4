"""A bad engineer is harmless: each, through real trainings, ends no worse than `fixed`."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="training needs the extra `train`")

from coevolve.engineers.adversaries import ADVERSARIES, HARMFUL
from coevolve.engines.trl.engine import TrlEngine
from coevolve.evaluation.paired import paired
from coevolve.evolution.assembly import create
from coevolve.evolution.rounds import Rounds
from coevolve.harness.experiment import make_experiment

QUICK = ("bad-largest", "bad-nan", "bad-injected", "bad-silent")
"""One of each kind; the others take as long and are tried by `make slow`."""
SOME = [
    name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ADVERSARIES
]
SMALL = {f"size{size}.data_ratio": 0.25 for size in (3, 4, 5, 10)}


def run(folder: Path, engineer: str, **changes: Any) -> Rounds:
    """Two short rounds with the pocket policy."""
    values = {
        "name": "bad", "rounds": 2, "start": "default", "knobs": SMALL, "engineers": [engineer],
        "patience_s": 20.0,
        "recipe": {"steps": 2, "tasks": 4, "group": 4, "max_tokens": 96, "learning_rate": 3e-5},
        "measured": {"dev": 8, "gate": 64, "knobs": SMALL, "max_tokens": 96},
        "backtest": {"tasks": 8, "samples": 4},
        **changes,
    }  # fmt: skip
    rounds = create(make_experiment(values, "test"), folder, TrlEngine(), print, print)  # type: ignore[arg-type]
    rounds.run()
    return rounds


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> Rounds:
    return run(tmp_path_factory.mktemp("fixed") / "run", "fixed")


def gate_rates(rounds: Rounds) -> list[float]:
    """Which gate tasks the policy in force at the end solves."""
    last = rounds.run()
    found = rounds.measuring.measure(last.policy, rounds.measuring.gate, last.gate)
    return [float(one.outcome.valid) for one in found]


@pytest.mark.parametrize("name", SOME)
def test_no_adversary_ends_worse_than_doing_nothing(
    tmp_path: Path, fixed: Rounds, name: str
) -> None:
    patience = {"patience_s": 1.0} if name == "bad-silent" else {}
    rounds = run(tmp_path / "run", name, **patience)
    assert rounds.ledger.state() == "done"
    change = paired(gate_rates(fixed), gate_rates(rounds), seed=0)
    assert change.high >= -rounds.experiment.gate.margin
    (proposal,) = rounds.ledger.phase(0, "propose", dict)["proposals"][name]
    assert bool(proposal["failure"]) == (name not in HARMFUL and name != "bad-injected")
    probes = rounds.ledger.phase(0, "backtest", dict)["probes"]
    assert probes[0]["name"] == "incumbent"
    past = rounds.run().history
    reach = rounds.experiment.reach
    moved = [abs(past[1].knobs[k] - past[0].knobs[k]) for k in past[0].knobs if "hole" in k]
    assert max(moved) <= reach * 0.5 + 1e-9


def test_unguarded_a_harmful_proposal_is_trained_on(tmp_path: Path) -> None:
    """The guards are what makes the difference: without them the same proposal is taken whole."""
    off = {"gate": {"on": False}, "backtest": {"on": False}, "reach": 1.0}
    past = run(tmp_path / "run", "bad-largest", **off).run().history
    assert past[1].engineer == "bad-largest"
    assert past[1].knobs["size10.data_ratio"] == 1
