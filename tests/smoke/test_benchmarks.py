"""Benchmarks that only people start still work with the evidence of now."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("duckdb", reason="diagnostics need the extra `serve`")
pytest.importorskip("pandas", reason="the peer is pandas")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_the_diagnostic_suite_agrees_with_pandas(tmp_path: Path) -> None:
    command = [sys.executable, "diagnostics.py", "--most", "10000", "--json", tmp_path / "facts"]
    done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(json.loads((tmp_path / "facts").read_text())["rows"]) == 3
