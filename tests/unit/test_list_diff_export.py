"""Runs in a line each, what sets two apart, and what other programs get of one."""

import csv
import json
from pathlib import Path

import pytest
from pretended import TREE, Listed, make_run
from typer.testing import CliRunner

from coevolve.cli.main import app
from coevolve.core.errors import UserError
from coevolve.loop.loop import run_loop

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
