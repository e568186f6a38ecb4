"""The reward, number by number."""

import pytest

from coevolve.domains.lake.reward import LengthBalance, accuracy
from coevolve.domains.simple import length


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
    ("share", "weights"), [(0, (0.5, 0.5)), (0.5, (0.5, 0.5)), (0.7, (0.65, 0.35)), (1, (0.8, 0.2))]
)
def test_weights_follow_the_share_of_short_answers(share, weights):
    assert LengthBalance(short_share=share).weights() == pytest.approx(weights)


def test_the_balance_is_explicit_and_survives_a_round_trip():
    balance = LengthBalance(short_share=1.0, memory=0.5).update([100, 5_000])
    assert balance.short_share == pytest.approx(0.75)
    assert LengthBalance.model_validate_json(balance.model_dump_json()) == balance
    assert balance.update([]) == balance
    assert LengthBalance(short_share=0.9).reward({"accuracy": 1, "length": -1}) == pytest.approx(
        0.6
    )
