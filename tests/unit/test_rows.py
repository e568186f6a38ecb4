"""Scoring without padding gives what TRL's own scoring gives, gradients included."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="training needs the extra `train`")

import torch
from training import lake_tasks, stage, weights

from coevolve.engines.trl.engine import TrlEngine
from coevolve.engines.trl.folder import StageFolder
from coevolve.engines.trl.rows import Rows


def test_layout_is_recognised() -> None:
    mask = torch.tensor([[0, 1, 1, 1, 0], [1, 1, 1, 1, 1]])
    rows = Rows(torch.arange(10).view(2, 5), mask, 3)
    assert rows.solid
    assert rows.first.tolist() == [1, 0]
    assert rows.prompts.tolist() == [1, 2]
    assert not Rows(torch.arange(10).view(2, 5), torch.tensor([[1, 0, 1, 0, 0]] * 2), 3).solid


@pytest.mark.parametrize("loss", ["dapo", "grpo", "dr_grpo"])
def test_losses_and_gradients_are_trls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    changes: dict[str, Any] = {"steps": 1, "tasks": 4, "loss": loss}
    TrlEngine().train(stage(tmp_path / "ours", recipe=changes), lake_tasks(4))
    monkeypatch.setattr(Rows, "solid", property(lambda _: False, lambda *_: None), raising=False)
    TrlEngine().train(stage(tmp_path / "theirs", recipe=changes), lake_tasks(4))
    ours = StageFolder(tmp_path / "ours").lines()[0]
    theirs = StageFolder(tmp_path / "theirs").lines()[0]
    for name in ("loss", "grad_norm", "entropy", "reward"):
        assert ours[name] == pytest.approx(theirs[name], rel=1e-3, abs=1e-6), name
    one, other = weights(tmp_path / "ours" / "policy"), weights(tmp_path / "theirs" / "policy")
    apart = max((one[name] - other[name]).abs().max().item() for name in one)
    assert apart < 2.1e-4  # at most a flipped sign of Adam's first step, where gradients vanish
