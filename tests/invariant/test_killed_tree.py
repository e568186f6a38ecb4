"""A tree that is killed at any instant and resumed comes to what it would have come to anyway."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parent / "killed_tree.py"


def grown(folder: Path, kills: int) -> dict[str, Any]:
    """What trees came to that were killed so often, one after the other."""
    places = [str(SCRIPT.parent.parent), *sys.path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    ran = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), str(kills), "1"],
        env=environment, capture_output=True, text=True, timeout=1_500, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3_000:]
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def check(tmp_path: Path, kills: int) -> None:
    whole = grown(tmp_path / "whole", 0)
    assert whole["killed"] == 0
    assert [one["verdict"] for one in whole["trees"][0]["versions"]][:2] == ["root", "pruned"]
    killed = grown(tmp_path / "killed", kills)
    assert killed["killed"] >= kills
    for tree in killed["trees"]:
        assert tree == whole["trees"][0]


def test_a_killed_tree_grows_on(tmp_path: Path) -> None:
    check(tmp_path, 4)


@pytest.mark.slow
def test_a_tree_killed_fifty_times_grows_on(tmp_path: Path) -> None:
    check(tmp_path, 50)
