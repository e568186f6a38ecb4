"""`coevolve train` and `coevolve pocket measure`: mistakes in one line, JSON for scripts."""

import json
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="training needs the extra `train`")

from processes import coevolve, facts_of

from coevolve.cli import pocket
from coevolve.core.errors import UserError


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--style", "lak=cells"), "unknown domain of this stage 'lak'; did you mean 'lake'?"),
        (("--style", "lake=nonsense"), "unknown prompt style 'nonsense'"),
        (("--style", "engineering=table"), "unknown domain of this stage 'engineering'"),
        (("--style", "cells", "--lessons", "0.5"), "unknown prompt style 'cells'"),
        (("--processes", 2000), "less than or equal to 1024"),
        (("--workers", 2), "--workers N and --ray ADDRESS go together"),
        (("--workers", 2, "--ray", "auto", "--processes", 2), "give one of them"),
        (("--workers", 2, "--ray", "auto", "--engine", "command:x"), "needs the engine trl"),
        (("--workers", 2, "--ray", "auto", "--plan"), "leave --workers and --ray out"),
        (("--workers", 2, "--ray", "127.0.0.1:1"), "no Ray cluster at '127.0.0.1:1'"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, words: tuple[object, ...], said: str) -> None:
    done = coevolve("train", "grpo", "-o", tmp_path / "stage", *words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert said in " ".join(done.stderr.split())


def test_settings_are_json_for_scripts() -> None:
    found = facts_of("train", "--explain", "-r", "steps=7")
    assert found["recipe"]["steps"] == 7
    assert found["derived"]["max_steps"]["value"] == 7
    assert found["derived"]["max_steps"]["why"]


def test_rates_are_shown_though_they_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("coevolve.pocket.rates.measure", lambda *_: {"greedy": {"valid": 0.5}})
    (tmp_path / "rates.json").mkdir()
    with pytest.raises(UserError, match=r"cannot write .*rates\.json"):
        pocket.measure(tmp_path, 1, 0)
    assert "greedy.valid" in capsys.readouterr().out
    (tmp_path / "rates.json").rmdir()
    pocket.measure(tmp_path, 1, 0)
    assert json.loads((tmp_path / "rates.json").read_text("utf-8"))["greedy"] == {"valid": 0.5}
