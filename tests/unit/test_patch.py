"""Filters, the harness, and patches that change one factor of it."""

import numpy as np
import pytest

from coevolve.core.errors import UserError
from coevolve.harness.filters import (
    AbandonmentFilter,
    Columns,
    EchoFilter,
    Memory,
    PythonFilter,
    SpreadFilter,
    TopFilter,
    TruncationFilter,
    weights,
)
from coevolve.harness.harness import Harness
from coevolve.harness.patch import FACTORS, Patch, changes, patched


def columns(rewards, truncated=(), tokens=(), turns=()):
    groups, size = len(rewards), len(rewards[0])
    count = groups * size
    return Columns(
        np.repeat(np.arange(groups), size),
        np.array(rewards, dtype=float).reshape(-1),
        np.array(truncated or [False] * count),
        np.array(tokens or [50] * count),
        np.array(turns or [1] * count),
        np.ones(count),
    )


def test_spread_leaves_out_groups_that_hardly_differ():
    found, _ = weights((SpreadFilter(least=0.1),), columns([[0, 1], [1, 1], [0.5, 0.6]]), Memory())
    assert found.tolist() == [1, 1, 0, 0, 0, 0]


def test_top_keeps_its_share_after_the_warm_up_and_remembers():
    rng = np.random.default_rng(0)
    filters, memory, shares = (TopFilter(share=0.5, memory=0.8, warm_up=3),), Memory(), []
    for _ in range(40):
        spread = rng.random(40)
        found, memory = weights(filters, columns([[0.0, 2 * s] for s in spread]), memory)
        shares.append(found.mean())
    assert shares[:3] == [1.0] * 3
    assert np.mean(shares[5:]) == pytest.approx(0.5, abs=0.07)
    assert memory.step == 40
    assert memory.threshold == pytest.approx(0.5, abs=0.1)


def test_rows_are_left_out_by_what_they_are():
    rows = columns([[0, 1, 0, 1]], [True, False, False, False], [9, 2, 50, 50], [1, 1, 80, 2])
    filters = (TruncationFilter(), AbandonmentFilter(least_tokens=4), EchoFilter(most_turns=50))
    assert weights(filters, rows, Memory())[0].tolist() == [0, 0, 0, 1]


def test_functions_weigh_what_other_filters_let_through():
    rows = columns([[0, 1, 0, 1]], [True, False, False, False])._replace(
        weight=np.array([3.0, 0.0, 0.5, 2.0])
    )
    code = "def weight(rollout):\n    return 1"
    found, _ = weights((TruncationFilter(), PythonFilter(code=code)), rows, Memory())
    assert found.tolist() == [0, 0, 0.5, 2]
    with pytest.raises(UserError, match="def weight"):
        patched(Harness(), patch("filters", [{"kind": "python", "code": "1"}]))


# --- patches


def patch(factor, value, **more):
    return Patch(factor=factor, value=value, hypothesis="if so, then better, because", **more)


VALUES = {
    "knobs": {"size3.hole_ratio": 0.3}, "reward": "accuracy + 0.1 * length",
    "filters": [{"kind": "spread", "least": 0.1}], "recipe.temperature": 0.8, "recipe.group": 16,
    "recipe.max_tokens": 99, "recipe.learning_rate": 3e-5, "recipe.clip_low": 0.1,
    "recipe.clip_high": 0.4, "recipe.kl": 0.01, "recipe.entropy": 0.001, "recipe.loss": "gspo",
    "recipe.epochs": 2, "recipe.iterations": 4, "recipe.schedule": "cosine",
    "recipe.redraw": 2, "recipe.revisit": 0.25, "recipe.temperature_end": 0.7,
    "wording.system": "Be brief.", "wording.prompt": "Now: {task}",
}  # fmt: skip


@pytest.mark.parametrize("factor", FACTORS)
def test_every_factor_can_be_changed_alone(factor):
    before = Harness()
    after = patched(before, patch(factor, VALUES[factor]))
    assert changes(before, after) == [factor]
    assert before.digest() != after.digest()
    assert factor not in patch(factor, 1).frozen
    assert len(patch(factor, 1).frozen) == len(FACTORS) - 1


@pytest.mark.parametrize(
    ("factor", "value", "said"),
    [
        ("recipe.steps", 99, "unknown factor"),
        ("recipe", {"temperature": 0.5, "group": 4}, "unknown factor"),
        ("recipe.temprature", 1, "recipe.temperature"),
        ("recipe.temperature", 1.0, "changes nothing"),
        ("recipe.temperature", -3, "temperature"),
        ("recipe.loss", "magic", "loss"),
        ("recipe.schedule", "stairs", "schedule"),
        ("recipe.iterations", 0, "iterations"),
        ("reward", "open('x')", "not allowed"),
        ("filters", [{"kind": "all"}], "kind"),
        ("__class__", 1, "unknown factor"),
    ],
)
def test_what_is_no_change_of_one_factor_is_refused(factor, value, said):
    with pytest.raises(UserError, match=said):
        patched(Harness(), patch(factor, value))
