"""The scorecard: predictions beside outcomes, read off a ledger."""

import json
from pathlib import Path
from typing import Any

import pytest
from populations import PLAN, patch
from synthetic import judged
from synthetic import record as keep
from typer.testing import CliRunner

from coevolve.backtests.scorecard import Line, Scorecard, scorecard
from coevolve.cli.main import app
from coevolve.cli.scorecard import moved_words
from coevolve.evaluation.difference import Difference
from coevolve.harness.backtest import Backtest, Measure
from coevolve.harness.harness import Harness
from coevolve.harness.version import Moved, Version
from coevolve.store.ledger import Ledger
from coevolve.store.lineage import lineage_of
from coevolve.store.paths import generation_place, version_place
from coevolve.store.phases import Grown, Phase, Tried
from coevolve.store.phases import Tests as Backtests

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
    """A ledger with a generation of one patch per case; one without an outcome was refused."""
    with Ledger.create(folder, PLAN) as ledger, ledger.writing():
        grow(ledger, Version(number=0, parent=None, harness=Harness()))
        keep(ledger, version_place(0), "gate", judged("root", None))
        number = 0
        for generation, (factor, value, metric, predicted, ends) in enumerate(cases, 1):
            change = patch(factor, value, metric=metric)
            tested = Backtest(
                passed=ends is not None, words="so", prediction=predicted,  # type: ignore[arg-type]
                measures={"revived": Measure(value=1, n=2)},
            )  # fmt: skip
            why = "" if ends else "rejected by its backtest: so"
            tried = Tried(author="rules", patch=change, refused=why, backtest=tested)
            screened = Tried(author="rules", patch=change, refused="refused, from rules: no")
            tests = Backtests(words="so", tried=(tried, screened))
            keep(ledger, generation_place(generation), "backtest", tests)
            if ends is None:
                continue
            number += 1
            grow(ledger, Version(
                number=number, generation=generation, parent=0, patch=change, author="rules",
                harness=Harness(),
            ))  # fmt: skip
            before, after = ends
            by = after - (before or 0.0)
            moved = Moved(metric=metric, before=before, after=after)
            difference = Difference(mean=by, low=by - 0.07, high=by + 0.07, p=0.1, n=100)
            verdict = judged("kept", 0, change=difference, moved=moved)
            keep(ledger, version_place(number), "gate", verdict)


def grow(ledger: Ledger, version: Version) -> None:
    keep(ledger, version_place(version.number), "version", Grown(version=version, code=""))


def read(folder: Path) -> Scorecard:
    with Ledger.open(folder) as ledger:
        return scorecard(lineage_of(ledger))


def test_predictions_are_counted_by_layer(tmp_path: Path) -> None:
    record(tmp_path, CASES)
    found = read(tmp_path)
    results = [(line.generation, line.version, line.result, line.sure) for line in found.lines]
    assert results == [
        (1, 1, "hit", True), (2, 2, "miss", False), (3, 3, "hit", False), (4, 4, "miss", False),
        (5, 5, "unclear", True), (6, None, "untrained", False), (7, 6, "unclear", False),
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
    first = values["lines"][0]
    assert first["predicted"] == "up"
    before, after = (f"{100 * first[name]:.1f} %" for name in ("before", "after"))
    line = Line.model_validate(first)  # a table is as wide as whoever imported it first had it
    assert moved_words(line) == f"{first['moved']} {before} → {after}"


SCREENED = Backtests(
    words="nothing else to try",
    tried=(Tried(author="rules", patch=patch("reward", "gold"), refused="refused: no 'gold'"),),
)


@pytest.mark.parametrize("phases", [{}, {"backtest": SCREENED}])
def test_a_run_without_patches_has_none(tmp_path: Path, phases: dict[str, Phase]) -> None:
    with Ledger.create(tmp_path, PLAN) as ledger, ledger.writing():
        for name, phase in phases.items():
            keep(ledger, generation_place(1), name, phase)
    found = read(tmp_path)
    assert found.lines == []
    assert found.totals[-1].hits.n == 0
    shown = CliRunner().invoke(app, ["scorecard", str(tmp_path)])
    assert "no patch" in shown.output
