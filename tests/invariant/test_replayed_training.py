"""A stored training replayed is the training that was: same rewards, same rollouts left out."""

from pathlib import Path

import pytest

pytest.importorskip("trl", reason="training needs the extra `train`")

import numpy as np
from populations import patch
from training import lake_tasks, stage

from coevolve.backtests.patch import backtest_stored, replayed
from coevolve.backtests.replay import read_stored, rows_of
from coevolve.domains.registry import get_domain
from coevolve.engines.base import Progress
from coevolve.engines.trl.engine import TrlEngine
from coevolve.engines.trl.folder import StageFolder
from coevolve.harness import reward
from coevolve.harness.filters import PythonFilter, TopFilter, TruncationFilter
from coevolve.harness.harness import Harness
from coevolve.harness.rules import BacktestRule
from coevolve.store.shards import read

LAKE = get_domain("lake")
ADAPTIVE = "short * (valid + optimal) / 2 - (1 - short) * tokens / 40"


def test_a_real_stage_is_replayed_exactly(tmp_path: Path) -> None:
    text = "reward + 0.3 * optimal - 0.01 * tokens"
    body = "return 0 if '2' in rollout['text'] else rollout['group_valid'] + 1"
    code = f"def weight(rollout):\n    {body}"
    filters = (
        TopFilter(share=0.5, memory=0.5, warm_up=1), TruncationFilter(), PythonFilter(code=code),
    )  # fmt: skip
    chosen = stage(tmp_path, reward=text, filters=filters, recipe={"tasks": 4})
    TrlEngine().train(chosen, lake_tasks(16))
    harness = Harness(reward=text, filters=filters, recipe=chosen.recipe)
    stored = read_stored(tmp_path, 0, LAKE.components)
    weights, signal = replayed(stored, harness)
    keep = weights > 0
    lines = StageFolder(tmp_path).lines()
    assert len(lines) == len(list(rows_of(stored.step))) == 4
    for line, rows in zip(lines, rows_of(stored.step), strict=True):
        assert line["left_out"] == pytest.approx(1 - keep[rows].mean(), abs=1e-6)
        assert line["reward"] == pytest.approx(signal.rewards[rows].mean(), abs=1e-5)
        groups = np.unique(stored.group[rows])
        assert line["dead"] == pytest.approx(1 - signal.live[groups].mean(), abs=1e-6)
    assert not keep.all()
    found = backtest_stored(patch("filters", []), harness, stored, LAKE, BacktestRule())
    assert found.measures["rollouts_kept"].value == 1
    assert found.measures["rollouts_kept_before"].value == pytest.approx(keep.mean())


def test_a_reward_that_follows_the_steps_before_is_resumed_and_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reward, "SHORT_TOKENS", 7)  # some answers are short, and some are not

    def train(folder: Path, until: int = 4) -> None:
        def observe(progress: Progress) -> None:
            if progress.step > until:
                raise KeyboardInterrupt

        chosen = stage(folder, reward=ADAPTIVE, recipe={"tasks": 4})
        TrlEngine().train(chosen, lake_tasks(16), observe)

    train(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "stage", until=2)
    train(tmp_path / "stage")
    whole, found = (read(tmp_path / name / "rollouts")["shaped"] for name in ("whole", "stage"))
    assert whole.to_pylist() == found.to_pylist()
    lines = StageFolder(tmp_path / "stage").lines()
    assert [line["short"] for line in lines] == [
        line["short"] for line in StageFolder(tmp_path / "whole").lines()
    ]
    stored = read_stored(tmp_path / "whole", 0, LAKE.components)
    assert stored.rewards(ADAPTIVE) == pytest.approx(np.array(whole.to_pylist()))
    in_force = [stored.facts["short"][rows][0] for rows in rows_of(stored.step)]
    assert in_force == [1.0, *(line["short"] for line in lines[:-1])]
    assert len(set(in_force)) == 4
