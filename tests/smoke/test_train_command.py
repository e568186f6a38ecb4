"""`coevolve train`: mistakes in one line."""

from pathlib import Path

import pytest

pytest.importorskip("trl", reason="training needs the extra `train`")

from processes import coevolve


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--style", "lak=cells"), "unknown domain of this stage 'lak'; did you mean 'lake'?"),
        (("--style", "lake=nonsense"), "unknown prompt style 'nonsense'"),
        (("--style", "engineering=table"), "unknown domain of this stage 'engineering'"),
        (("--style", "cells", "--lessons", "0.5"), "unknown prompt style 'cells'"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, words: tuple[object, ...], said: str) -> None:
    done = coevolve("train", "grpo", "-o", tmp_path / "stage", *words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert said in " ".join(done.stderr.split())
