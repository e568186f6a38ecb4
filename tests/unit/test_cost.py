"""What a plan costs on paper, beside what small runs of it have done."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pretended import SMALL, TREE, Listed, make_run, temperature
from typer.testing import CliRunner

from coevolve.cli.main import app
from coevolve.harness.cost import Machine, Part, cost, processor_hours
from coevolve.harness.plan import load_plan, make_plan
from coevolve.loop.loop import run_loop

DRAWN = {"dev": 24, "gate": 60, "temperature": 1.0, "samples": 2, "knobs": SMALL}
EIGHT = Machine(8e9, prompt=400, answer=1_000)


def parts_of(values: dict[str, Any], machine: Machine = EIGHT) -> dict[str, Part]:
    return {part.name: part for part in cost(make_plan(values, "test"), machine)}


def drawn(folder: Path, name: str) -> int:
    """Rollouts that a run has in all folders of a name."""
    files = [file for file in folder.rglob("*.parquet") if name in file.parent.name]
    return sum(pq.read_metadata(file).num_rows for file in files)


@pytest.mark.parametrize(
    ("changes", "patches"),
    [
        ({}, ()),
        ({"control": True, "versions": 3, "scripts": ("prioritised",) * 6}, ()),
        ({**TREE, "target": DRAWN}, (temperature(0.9),)),
        (TREE, (temperature(0.9), temperature(0.8), temperature(0.7))),
    ],
)
def test_no_more_is_measured_than_was_reckoned(
    tmp_path: Path, changes: dict[str, Any], patches: tuple[Any, ...]
) -> None:
    run = make_run(tmp_path / "run", Listed(*patches) if patches else None, **changes)
    run_loop(run)
    found = {part.name: part.rollouts for part in cost(run.plan, EIGHT)}
    trained = len(list(run.ledger.folder.glob("versions/*/result.json")))
    if trained == run.plan.versions or run.plan.control:
        assert drawn(run.ledger.folder, "dev") == found["dev"]
        assert drawn(run.ledger.folder, "gate") == found["gate"]
    else:  # it had no further ideas
        assert 0 < drawn(run.ledger.folder, "dev") < found["dev"]
        assert 0 < drawn(run.ledger.folder, "gate") < found["gate"]


def test_size_lengths_and_prices_count() -> None:
    values: dict[str, Any] = {"versions": 10, "engineers": ["fixed"]}
    small, large = (parts_of(values, EIGHT._replace(parameters=n)) for n in (8e9, 16e9))
    assert set(small) == {"training", "dev", "gate"}
    assert large["training"].gpu_hours == pytest.approx(2 * small["training"].gpu_hours)
    longer = parts_of(values, EIGHT._replace(answer=2_000))
    assert longer["training"].gpu_hours > 1.5 * small["training"].gpu_hours
    dear = parts_of(values, EIGHT._replace(hour=5.0))
    assert dear["training"].money == pytest.approx(2 * small["training"].money)
    assert dear["training"].gpu_hours == small["training"].gpu_hours


def test_what_steers_is_told_apart() -> None:
    values: dict[str, Any] = {
        "versions": 9, "width": 2, "control": True, "accept": "better", "prices": [1.0, 4.0],
        "engineers": ["http://host/v1#m"], "target": {"clean": 50},
    }  # fmt: skip
    found = parts_of(values)
    plan = make_plan(values, "test")
    assert found["controls and twins"].rollouts == (4 + 2) * plan.rollouts
    assert found["backtests"].rollouts == 4 * 7 * 96 * 8
    assert found["clean room"].rollouts == 10 * 50
    assert found["exploring"].rollouts == 4 * 16 * 8
    assert found["engineers"].money == pytest.approx(4 * 4.0)
    assert [part.name for part in found.values() if not part.steers] == ["training"]
    branching = parts_of({**values, "backtest": {"by": "branch"}})
    assert branching["branches"].learned == 4 * 6 * 10 * 16 * 8
    assert processor_hours(list(found.values()), plan) > 0
    paid = parts_of({**values, "pay_probes": True})
    less = found["training"].rollouts - paid["training"].rollouts
    assert less == found["backtests"].rollouts + found["exploring"].rollouts


def test_the_command() -> None:
    words = ["cost", "tree", "--parameters", "8B", "--set", "versions=10", "--json"]
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 0
    facts = json.loads(told.stdout)
    assert facts["parameters"] == 8e9
    plan = load_plan("tree", {"versions": 10})
    assert [part["name"] for part in facts["parts"]] == [part.name for part in cost(plan, EIGHT)]
    shown = CliRunner().invoke(app, words[:-1])
    assert "of the training that it steers" in " ".join(shown.stdout.split())
