"""A stored training replayed is the training that was: same rewards, same rollouts left out."""

from pathlib import Path

import pytest

pytest.importorskip("trl", reason="training needs the extra `train`")

import numpy as np
from populations import patch
from training import lake_tasks, stage

from coevolve.backtests.patch import backtest_stored, replayed
from coevolve.backtests.replay import read_stored
from coevolve.domains.registry import get_domain
from coevolve.engines.trl.engine import TrlEngine
from coevolve.engines.trl.folder import StageFolder
from coevolve.harness.filters import TopFilter, TruncationFilter
from coevolve.harness.harness import Harness
from coevolve.harness.rules import BacktestRule

LAKE = get_domain("lake")


def test_a_real_stage_is_replayed_exactly(tmp_path: Path) -> None:
    reward = "reward + 0.3 * optimal - 0.01 * tokens"
    filters = (TopFilter(share=0.5, memory=0.5, warm_up=1), TruncationFilter())
    chosen = stage(tmp_path, reward=reward, filters=filters, recipe={"tasks": 4})
    TrlEngine().train(chosen, lake_tasks(16))
    harness = Harness(reward=reward, filters=filters, recipe=chosen.recipe)
    stored = read_stored(tmp_path, 0, LAKE.components)
    keep, signal = replayed(stored, harness)
    lines = StageFolder(tmp_path).lines()
    assert len(lines) == len(list(stored.steps())) == 4
    for line, rows in zip(lines, stored.steps(), strict=True):
        assert line["left_out"] == pytest.approx(1 - keep[rows].mean(), abs=1e-6)
        assert line["reward"] == pytest.approx(signal.rewards[rows].mean(), abs=1e-5)
        groups = np.unique(stored.group[rows])
        assert line["dead"] == pytest.approx(1 - signal.live[groups].mean(), abs=1e-6)
    assert not keep.all()
    found = backtest_stored(patch("filters", []), harness, stored, LAKE, BacktestRule())
    assert found.measures["rollouts_kept"].value == 1
    assert found.measures["rollouts_kept_before"].value == pytest.approx(keep.mean())
