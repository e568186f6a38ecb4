"""Rewards and weights in Python: what is refused, what they see, and what backtests say."""

from pathlib import Path
from typing import Any

import pytest
from pretended import LAKE, TREE, Listed, make_run

from coevolve.backtests.patch import backtest_stored
from coevolve.backtests.replay import read_stored
from coevolve.core.errors import UserError
from coevolve.core.splits import Split
from coevolve.evaluation import shape
from coevolve.evaluation.attempts import attempts
from coevolve.evaluation.shape import coded, shaped
from coevolve.harness.code import check_code, is_code
from coevolve.harness.harness import Harness
from coevolve.harness.patch import Patch
from coevolve.harness.rules import BacktestRule
from coevolve.loop.loop import run_loop
from coevolve.policies.base import Sampling
from coevolve.policies.script import ScriptedPolicy
from coevolve.sandbox.bubblewrap import kind
from coevolve.store.rollouts import write

SHORTER = """
import math

LIMIT = 40

def bonus(rollout):
    return 0.1 * math.exp(-rollout["tokens"] / LIMIT)

def reward(rollout):
    spoken = [text for role, text in rollout["messages"] if role == "assistant"]
    return rollout["reward"] + (bonus(rollout) if rollout["valid"] else 0) + 0 * len(spoken)
"""


def rollouts(count: int = 24) -> list[Any]:
    """Four attempts at each task, good and bad ones."""
    tasks = list(LAKE.generate(LAKE.space.defaults(), count, seed=3, split=Split.TRAIN))
    by_script = [
        list(attempts(LAKE, ScriptedPolicy(LAKE, script), tasks, Sampling(seed=1)))
        for script in ("greedy", "random", "prioritised", "oracle")
    ]
    return [
        one.model_copy(update={"sample": sample})
        for group in zip(*by_script, strict=True)
        for sample, one in enumerate(group)
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def reward(rollout) return 1", "not Python"),
        ("def other(rollout):\n    return 1", "def reward"),
        ("def reward(a, b):\n    return 1", "def reward"),
        ("import os\ndef reward(rollout):\n    return 1", "imports os"),
        ("def reward(rollout):\n    import socket\n    return 1", "imports socket"),
        ("def reward(rollout):\n    return 1\nprint(3)", "line 3"),
        ("def reward(rollout):\n    return 1\n" + "#" * 9_000, "characters"),
        ("def reward(rollout):\n    return " + "(" * 5_000, "not Python"),
    ],
)
def test_what_is_no_function_of_a_rollout_is_refused_before_it_runs(text: str, why: str) -> None:
    assert is_code(text)
    with pytest.raises(UserError, match=why):
        check_code(text)


def test_expressions_stay_expressions() -> None:
    assert not any(map(is_code, ("reward", "definite + 1", "where(valid, 1, 0)", "from_start")))
    assert is_code(SHORTER)
    check_code(SHORTER)


def test_a_function_sees_what_an_expression_sees() -> None:
    found = rollouts()
    names = ("reward", "valid", "optimal", "tokens", "turns", "truncated", "short", "accuracy")
    total = " + ".join(f'rollout["{name}"]' for name in names)
    code = f"def reward(rollout):\n    return {total}"
    text = " + ".join(names)
    assert shaped(code, found, LAKE.components).values.tolist() == pytest.approx(
        shaped(text, found, LAKE.components).values.tolist()
    )


HOSTILE = {
    "raises": "def reward(rollout):\n    return 1 / 0",
    "never ends": "def reward(rollout):\n    while True: pass",
    "too much": "def reward(rollout):\n    return [0] * 10**12",
    "no number": "def reward(rollout):\n    return 'a lot'",
    "not finite": "def reward(rollout):\n    return float('nan')",
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_what_a_function_does_wrong_is_a_failure_that_earns_nothing(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shape, "LIMITS", shape.LIMITS.model_copy(update={"cpu_s": 1}))
    few = [{"reward": 1.0}, {"reward": 2.0}]
    found = coded(HOSTILE[case], few)
    assert found.values.tolist() == [0.0, 0.0]
    assert len(found.failures) == 2


@pytest.mark.skipif(kind() == "none", reason="there is no wall here")
def test_nothing_of_this_machine_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("41")
    code = f"def reward(rollout):\n    return int(open({str(tmp_path / 'secret')!r}).read())"
    assert coded(code, [{"reward": 1.0}]).failures[0].startswith("FileNotFoundError")


def stored(folder: Path, text: str) -> Any:
    found = rollouts()
    rewards = shaped(text, found, LAKE.components).values
    kept = [
        one.model_copy(update={"shaped": float(value), "step": 0, "group": one.task_id})
        for one, value in zip(found, rewards, strict=True)
    ]
    (folder / "stage.json").touch()
    write(kept, folder / "rollouts" / "step-000000-0.parquet")
    return read_stored(folder, 0, LAKE.components), [one.shaped for one in kept]


def test_replayed_it_gives_what_training_saw(tmp_path: Path) -> None:
    replay, seen = stored(tmp_path, SHORTER)
    assert replay.rewards(SHORTER).tolist() == pytest.approx(seen)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return 1 / 0", "fails on 96 of 96 rollouts: ZeroDivisionError"),
        ("SEEN.append(1); return len(SEEN)", "gives other numbers"),
        ("return -rollout['reward']", "worse results are newly ranked above better ones"),
        ("return rollout['reward'] + 1", "nothing changes"),
    ],
)
def test_backtests_refuse_what_fails_remembers_or_pays_for_the_wrong_thing(
    tmp_path: Path, body: str, why: str
) -> None:
    replay, _ = stored(tmp_path, "reward")
    source = f"SEEN = []\ndef reward(rollout):\n    {body}"
    patch = Patch(factor="reward", value=source, hypothesis="If so, then better.")
    found = backtest_stored(patch, Harness(), replay, LAKE, BacktestRule())
    assert not found.passed
    assert why in found.words


HARD = "return (1.6 if rollout['group_valid'] < 0.7 else 0.4) * (rollout['stop'] == 'end')"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (HARD, ""),
        ("return 1 / 0", "fails on 96 of 96 rollouts: ZeroDivisionError"),
        ("SEEN.append(1); return len(SEEN) / 50", "gives other numbers"),
        ("return 5", "as if the learning rate were so many times as large"),
        ("return 1 - rollout['valid']", "of the successes with signal are cut off"),
        ("return 1", "nothing changes"),
    ],
)
def test_weights_are_replayed_before_anything_is_trained(
    tmp_path: Path, body: str, why: str
) -> None:
    replay, _ = stored(tmp_path, "reward")
    code = f"SEEN = []\ndef weight(rollout):\n    {body}"
    patch = Patch(
        factor="filters", value=[{"kind": "python", "code": code}], hypothesis="If so, better."
    )
    found = backtest_stored(patch, Harness(), replay, LAKE, BacktestRule())
    assert found.passed == (not why), found.words
    assert why in found.words


def test_a_tree_trains_under_a_reward_in_python(tmp_path: Path) -> None:
    patch = {"factor": "reward", "value": SHORTER}
    plan = {**TREE, "versions": 2, "backtest": {"on": False}}
    lineage = run_loop(make_run(tmp_path / "run", Listed(patch), **plan))
    assert lineage.versions[1].harness.reward == SHORTER
    assert lineage.versions[1].verdict
