"""Runs in a line each, what sets two apart, and what other programs get of one."""

import csv
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from pretended import TREE, Listed, make_run
from typer.testing import CliRunner

import coevolve
from coevolve.cli.main import app
from coevolve.core.errors import LedgerError, UserError
from coevolve.engines.stage import steps_of
from coevolve.loop.loop import run_loop
from coevolve.store.ledger import Ledger

GOOD = {"factor": "recipe.temperature", "value": 0.9}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, versions in (("one", 2), ("two", 1)):
        run_loop(make_run(folder / name, Listed(GOOD), **{**TREE, "versions": versions}))
    return folder


def said(*words: object) -> str:
    found = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert found.exit_code == 0
    return found.stdout


def test_every_run_is_a_line(runs: Path) -> None:
    lines = said("list", runs).splitlines()
    assert len(lines) == 3
    assert {line.split()[0] for line in lines[1:]} == {"one", "two"}
    listed = json.loads(said("list", runs, "--json"))
    assert {(one["name"], one["state"]) for one in listed} == {("one", "done"), ("two", "done")}


def test_no_runs_are_no_error(tmp_path: Path) -> None:
    assert said("list", tmp_path) == ""
    with pytest.raises(UserError, match="is not a folder"):
        said("list", tmp_path / "nowhere")


def test_two_runs_differ_where_they_do(runs: Path) -> None:
    rows = json.loads(said("diff", runs / "one", runs / "two", "--json"))
    found = {(row["part"], row["name"]): (row["one"], row["other"]) for row in rows}
    assert found["plan", "versions"] == (2, 1)
    assert found["gate", "versions"] == (2, 1)
    assert ("plan", "seed") not in found
    assert "versions" in said("diff", runs / "one", runs / "two")
    assert said("diff", runs / "one", runs / "one").startswith("no difference")


@pytest.mark.parametrize("form", ["csv", "json"])
def test_versions_and_steps_are_tables(runs: Path, tmp_path: Path, form: str) -> None:
    said("export", runs / "one", tmp_path / "out", "--as", form)
    text = (tmp_path / "out" / f"versions.{form}").read_text()
    rows = json.loads(text) if form == "json" else list(csv.DictReader(text.splitlines()))
    assert [int(row["version"]) for row in rows] == [0, 1]
    assert rows[1]["factor"] == "recipe.temperature"
    assert float(rows[0]["gate_valid"]) >= 0
    assert (tmp_path / "out" / f"steps.{form}").exists()
    with pytest.raises(UserError, match="is there already"):
        said("export", runs / "one", tmp_path / "out")


def test_rollouts_are_a_data_set_without_gate_and_test(runs: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="needs the extra `train`")
    said("export", runs / "one", tmp_path / "out", "--as", "data")
    found = datasets.load_dataset(
        str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"), keep_in_memory=True
    )
    assert set(found) == {"train", "dev"}
    assert set(found["dev"]["split"]) == {"dev"}
    assert set(found["train"]["split"]) == {"train"}
    assert set(found["dev"]["version"]) == {0, 1}
    assert json.loads(found["dev"][0]["bucket"])["agents"]


def test_a_run_is_read_as_frames(runs: Path) -> None:
    pytest.importorskip("pandas", reason="comes with the extra `train`")
    found = coevolve.read(runs / "one")
    versions = found.versions()
    assert list(versions["version"]) == [0, 1]
    assert versions["factor"][1] == "recipe.temperature"
    assert set(found.steps()["version"]) <= {0, 1}
    rollouts = found.rollouts(columns=["task_id", "split", "valid"])
    assert list(rollouts) == ["task_id", "split", "valid", "version"]
    assert set(rollouts["split"]) == {"train", "dev"}
    assert len(rollouts) == len(found.rollouts())
    with pytest.raises(UserError, match="no column 'answer'"):
        found.rollouts(columns=["answer"])
    with pytest.raises(UserError, match="pandas or polars, not of 'excel'"):
        found.versions("excel")
    with pytest.raises(LedgerError, match="no run in"):
        coevolve.read(runs / "nowhere")


def test_a_run_is_read_as_frames_of_polars(runs: Path) -> None:
    polars = pytest.importorskip("polars", reason="installed apart")
    found = coevolve.read(runs / "one")
    for frame in (found.versions("polars"), found.steps("polars"), found.rollouts("polars")):
        assert isinstance(frame, polars.DataFrame)
    assert found.versions("polars")["version"].to_list() == [0, 1]


def test_plans_lineages_and_runs_show_themselves_in_notebooks(runs: Path) -> None:
    found = coevolve.read(runs / "one")
    page = found._repr_html_()
    assert "Did it learn?" in page
    assert "temperature 1 → 0.9" in page
    assert repr(found.lineage) == "<lineage of test: 2 versions, 2 kept>"
    assert "2 versions" in repr(found)
    plan = coevolve.Plan(versions=7, reward="valid * (tokens < 9)")
    assert "<td>7</td>" in plan._repr_html_()
    assert "tokens &lt; 9" in plan._repr_html_()
    assert "seed" not in plan._repr_html_()


def test_a_run_with_an_engineer_of_ones_own_is_resumed_from_python(tmp_path: Path) -> None:
    class Mine:
        name = "mine"

        def propose(self, view: object, seed: int) -> list[object]:
            return []

    run = make_run(tmp_path / "own", Mine(), **{**TREE, "versions": 1, "engineers": ["mine"]})
    run_loop(run)
    run.ledger.close()
    before = numbers_of(tmp_path / "own")
    with pytest.raises(UserError, match=r"'mine' is no engineer.*coevolve\.resume\("):
        coevolve.resume(tmp_path / "own", versions=2)
    assert numbers_of(tmp_path / "own") == before


def numbers_of(folder: Path) -> list[int]:
    with Ledger.open(folder) as ledger:
        return [event.number for event in ledger.events()]


def test_curves_become_runs_of_trackio(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its functions as they are in 0.43, where the package itself was tried."""
    told: list[tuple[str, object]] = []

    class Trackio(ModuleType):
        def init(self, project: str, name: str) -> None:
            told.append(("init", f"{project}/{name}"))

        def log(self, metrics: dict[str, float], step: int) -> None:
            assert all(isinstance(value, int | float) for value in metrics.values())
            told.append(("log", step))

        def finish(self) -> None:
            told.append(("finish", None))

    monkeypatch.setitem(sys.modules, "trackio", Trackio("trackio"))
    assert "trackio show --project" in said("export", runs / "one", "--as", "trackio")
    assert [what for what, _ in told].count("init") == 2
    steps = len(list(steps_of(runs / "one", [0, 1])))
    assert steps
    assert [what for what, _ in told].count("log") == steps
    assert told[-1] == ("finish", None)
    monkeypatch.setitem(sys.modules, "trackio", None)
    with pytest.raises(UserError, match="pip install trackio"):
        said("export", runs / "one", "--as", "trackio")
