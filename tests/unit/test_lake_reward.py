"""The reward, number by number."""

from pathlib import Path

import pytest

from coevolve.domains.lake.reward import accuracy, total
from coevolve.domains.simple import length
from coevolve.harness.expression import expression
from coevolve.harness.reward import SHORT, short_after

DOCS = Path(__file__).parents[2] / "docs"
BALANCED = "(accuracy + length) / 2 + 0.3 * clip((short - 0.5) / 0.4, 0, 1) * (accuracy - length)"


@pytest.mark.parametrize(
    ("cost", "optimal", "reward"),
    [(10, 10, 1.0), (15, 10, 0.825), (20, 10, 0.65), (30, 10, 0.3), (31, 10, 0.3), (9, None, 0.5)],
)
def test_accuracy(cost, optimal, reward):
    assert accuracy(cost, optimal) == pytest.approx(reward)


@pytest.mark.parametrize(
    ("tokens", "reward"), [(0, 0), (1_500, 0), (2_798, -0.5), (4_096, -1), (9_999, -1)]
)
def test_length(tokens, reward):
    assert length(tokens) == pytest.approx(reward)


@pytest.mark.parametrize(
    ("short", "weights"),
    [(0, (0.5, 0.5)), (0.5, (0.5, 0.5)), (0.7, (0.65, 0.35)), (0.9, (0.8, 0.2)), (1, (0.8, 0.2))],
)
def test_weights_can_follow_the_share_of_short_answers(short, weights):
    assert BALANCED in (DOCS / "lake.md").read_text("utf-8")
    for one, other in ((1, 0), (0, -1), (0.3, -0.5)):
        found = float(
            expression(BALANCED).value({"accuracy": one, "length": other, "short": short})
        )
        assert found == pytest.approx(weights[0] * one + weights[1] * other)


def test_while_answers_are_short_the_balance_is_that_of_evaluations():
    short = SHORT
    for _ in range(1_000):
        short = short_after(short, [1, 100, 1_500])
    for parts in ({"accuracy": 1.0, "length": 0.0}, {"accuracy": 0.3, "length": -0.25}):
        found = float(expression(BALANCED).value({**parts, "short": short}))
        assert found == pytest.approx(total(parts))


def test_the_share_of_short_answers_is_remembered():
    assert short_after(1.0, [1_501, 9_999]) == pytest.approx(0.9)
    assert short_after(0.5, [100, 5_000]) == pytest.approx(0.5)
    assert short_after(0.0, [0]) == pytest.approx(0.1)
