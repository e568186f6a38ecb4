"""The scorecard: predictions beside outcomes, read off a ledger."""

import json
from pathlib import Path
from typing import Any

import pytest
from populations import patch
from typer.testing import CliRunner

from coevolve.cli.main import app
from coevolve.evaluation.paired import Difference
from coevolve.evolution.backtests.backtested import Backtested, Measure
from coevolve.evolution.planting import record_of
from coevolve.evolution.promotion import Moved, Promotion
from coevolve.evolution.scorecard import Scorecard, scorecard
from coevolve.harness.harness import Harness
from coevolve.harness.version import Version
from coevolve.ledger.ledger import Ledger

Ends = tuple[float | None, float] | None
"""The metric before and after; None for a patch that was refused."""
CASES: list[tuple[str, Any, str, str, Ends]] = [
    ("reward", "2 * reward", "valid", "up", (0.4, 0.5)),
    ("reward", "3 * reward", "valid", "up", (0.5, 0.45)),
    ("reward", "4 * reward", "dead_groups", "down", (0.5, 0.2)),
    ("filters", [{"kind": "truncation"}], "valid", "down", (0.5, 0.5)),
    ("recipe.kl", 0.1, "valid", "unclear", (0.4, 0.5)),
    ("recipe.group", 2, "valid", "down", None),
    ("recipe.clip_low", 0.1, "solution_diversity", "up", (None, 0.5)),
]


def record(folder: Path, cases: list[tuple[str, Any, str, str, Ends]]) -> None:
    """A ledger with a version per case; one without an outcome was refused."""
    with Ledger.create(folder, {"name": "made"}) as ledger, ledger.writing():
        start = Version(number=0, parent=None, patch=None, harness=Harness(), verdict="root")
        ledger.phase(0, "patch", lambda: record_of(start, "start"))
        for number, (factor, value, metric, predicted, ends) in enumerate(cases, 1):
            change = patch(factor, value, metric=metric)
            version = Version(number=number, parent=0, patch=change, harness=Harness())
            tested = Backtested(
                passed=ends is not None, words="so", prediction=predicted,  # type: ignore[arg-type]
                measures={"revived": Measure(value=1, n=2)},
            )  # fmt: skip
            payload = {**tested.model_dump(mode="json"), "spent": {}}
            ledger.phase(number, "patch", lambda version=version: record_of(version, "rules"))
            ledger.phase(number, "backtest", lambda payload=payload: payload)
            if ends is None:
                continue
            before, after = ends
            by = after - (before or 0.0)
            difference = Difference(by, by - 0.07, by + 0.07, 0.1, 100)
            judged = Promotion("kept", "better", difference, Moved(metric, before, after), {}, ())
            ledger.phase(number, "gate", judged.as_json)


def read(folder: Path) -> Scorecard:
    with Ledger.open(folder) as ledger:
        return scorecard(ledger)


def test_predictions_are_counted_by_layer(tmp_path: Path) -> None:
    record(tmp_path, CASES)
    found = read(tmp_path)
    results = [(line.version, line.result, line.sure) for line in found.lines]
    assert results == [
        (1, "hit", True), (2, "miss", False), (3, "hit", False),
        (4, "miss", False), (5, "unclear", True), (6, "untrained", False), (7, "unclear", False),
    ]  # fmt: skip
    totals = {total.layer: total for total in found.totals}
    assert list(totals) == ["data", "optimiser", "reward", "sampling", "all"]
    every = totals["all"]
    assert (every.patches, every.refused, every.unclear) == (7, 1, 2)
    assert (every.hits.successes, every.misses, every.hits.n) == (2, 2, 4)
    assert every.hits.low < 0.5 < every.hits.high
    assert (every.sure_hits.successes, every.sure_hits.n) == (1, 1)
    assert (totals["reward"].hits.successes, totals["reward"].hits.n) == (2, 3)
    assert totals["optimiser"].hits.n == 0


def test_the_command_shows_it(tmp_path: Path) -> None:
    record(tmp_path, CASES)
    shown = CliRunner().invoke(app, ["scorecard", str(tmp_path)], env={"COLUMNS": "160"})
    assert shown.exit_code == 0, shown.output
    assert "predictions that came true" in shown.output
    assert "refused" in shown.output
    printed = CliRunner().invoke(app, ["scorecard", str(tmp_path), "--json"])
    values = json.loads(printed.stdout)
    assert values["totals"][-1]["hits"]["n"] == 4
    assert values["lines"][0]["predicted"] == "up"


@pytest.mark.parametrize("phases", [{}, {"backtest": {"chosen": "incumbent"}, "gate": {"keep": 1}}])
def test_a_run_without_patches_has_none(tmp_path: Path, phases: dict[str, Any]) -> None:
    with Ledger.create(tmp_path, {"name": "made"}) as ledger, ledger.writing():
        for name, payload in phases.items():
            ledger.phase(0, name, lambda payload=payload: payload)
    found = read(tmp_path)
    assert found.lines == []
    assert found.totals[-1].hits.n == 0
    shown = CliRunner().invoke(app, ["scorecard", str(tmp_path)])
    assert "no patch" in shown.output
