"""`coevolve report` as a user meets it."""

import json
import subprocess
from pathlib import Path

import pytest
from pretended import make_run
from processes import coevolve

from coevolve.loop.loop import run_loop


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs") / "small"
    run = make_run(place, scripts=("prioritised", "random"))
    run_loop(run)
    run.ledger.close()
    return place


def report(*words: object) -> subprocess.CompletedProcess[str]:
    return coevolve("report", *words, timeout=120)


def test_a_page_is_written_and_named(folder: Path) -> None:
    done = report(folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == str(folder / "report.html")
    page = (folder / "report.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "Did it learn?" in page


def test_numbers_for_scripts(folder: Path, tmp_path: Path) -> None:
    done = report(folder, "--output", tmp_path / "deep" / "page.html", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["bytes"] == (tmp_path / "deep" / "page.html").stat().st_size
    assert (found["state"], found["answer"], found["final"]["n"]) == ("done", "yes", 60)
    assert [one["number"] for one in found["versions"]] == [0, 1]
    assert 0 < found["orchestration"] <= 1


def test_a_damaged_run_is_shown_and_said(folder: Path, tmp_path: Path) -> None:
    (part,) = (folder / "versions" / "01" / "dev").glob("*.parquet")
    whole = part.read_bytes()
    part.write_bytes(whole[:100])
    done = report(folder, "-o", tmp_path / "page.html")
    part.write_bytes(whole)
    assert done.returncode == 0
    assert "versions/01/dev/part-00000.parquet cannot be read" in done.stderr.replace("\n", "")
    assert "missing or broken" in (tmp_path / "page.html").read_text("utf-8")


def test_mistakes_get_one_line(tmp_path: Path) -> None:
    done = report(tmp_path / "nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert "holds no run" in done.stderr
