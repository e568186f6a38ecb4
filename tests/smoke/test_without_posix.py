"""What works on a system that lacks what Windows does, and what says that it needs another."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import without_posix
from pretended import TREE, Listed, make_run

from coevolve.loop.loop import run_loop


def said(folder: Path, *words: object, code: int = 0) -> str:
    """What a command prints, or its error."""
    done = subprocess.run(
        [sys.executable, without_posix.__file__, *map(str, words)],
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr if code else done.stdout


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "one"
    run_loop(make_run(folder, Listed(), **{**TREE, "versions": 1}))
    return folder


def test_tasks_are_made_solved_and_answered(tmp_path: Path) -> None:
    said(tmp_path, "tasks", "generate", "-n", 3, "-o", "tasks.jsonl")
    assert "3" in said(tmp_path, "tasks", "solve", "tasks.jsonl")
    found = said(tmp_path, "evaluate", "-p", "greedy", "--split", "dev", "--count", 5, "--json")
    assert json.loads(found)
    assert "math" in said(tmp_path, "domains")
    said(tmp_path, "evaluate", "-d", "math", "-p", "oracle", "--split", "dev", "--count", 3)


def test_runs_are_read(run: Path, tmp_path: Path) -> None:
    assert "Did it learn?" in said(tmp_path, "status", run)
    assert "one" in said(tmp_path, "list", run.parent)
    said(tmp_path, "report", run, "-o", "report.html")
    said(tmp_path, "export", run, "table")
    said(tmp_path, "diff", run, run)
    assert "versions" in said(tmp_path, "run", "tree", "--explain")


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--output", "mine"),
        ("evaluate", "-d", "code", "-p", "oracle", "--split", "dev", "--count", 2),
    ],
)
def test_what_needs_another_system_says_so(tmp_path: Path, words: tuple[object, ...]) -> None:
    found = said(tmp_path, *words, code=2)
    assert (
        found.strip().splitlines()[-1].endswith("needs Linux or macOS; on Windows, run it in WSL")
    )
