"""The language of rewards: what it means, and that nothing else can be said in it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.errors import UserError
from coevolve.harness.expression import LARGEST, Expression

FACTS = {"accuracy": 0.7, "length": -0.2, "valid": 1.0, "tokens": 300.0}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("accuracy + 0.2 * length", 0.66),
        ("where(valid, accuracy, -1)", 0.7),
        ("clip(tokens / 100, 0, 2)", 2.0),
        ("(tokens > 200) - (tokens > 400)", 1.0),
        ("valid and not (tokens >= 300)", 0.0),
        ("accuracy / 0", 0.0),
        ("max(-accuracy, length)", -0.2),
        ("log1p(0) + sqrt(4) + abs(-1) + sqrt(-1)", 3.0),
    ],
)
def test_values(text, value):
    assert float(Expression(text).value(FACTS)) == pytest.approx(value)


def test_columns_are_computed_as_single_numbers_are():
    text = Expression(
        "where(valid, accuracy, 0.1 * length) + 0.5 * (tokens < 250 or tokens == 300)"
    )
    rng = np.random.default_rng(0)
    columns = {
        "valid": rng.integers(0, 2, 50).astype(float), "accuracy": rng.random(50),
        "length": -rng.random(50), "tokens": rng.choice([200.0, 300.0, 400.0], 50),
    }  # fmt: skip
    whole = text.value(columns)
    for row in range(50):
        single = {name: float(column[row]) for name, column in columns.items()}
        assert whole[row] == pytest.approx(float(text.value(single)))


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('id')", "accuracy.__class__", "(lambda: 1)()", "[1, 2]", "'a'",
        "accuracy if valid else 0", "x := 3", "2 ** 99999999", "accuracy[0]", "open('f')",
        "min(1)", "clip(x=1, low=0, high=1)", "True", "1 < 2 < 3", "f'{accuracy}'", "", "1 +",
        "(" * 300, "1" + "+1" * 240, "yield 1", "tokens // 2", "~valid", "1j", "min(*tokens)",
    ],
)  # fmt: skip
def test_all_else_is_refused(text):
    with pytest.raises(UserError):
        Expression(text)


def test_unknown_names_are_named():
    with pytest.raises(UserError, match=r"'acuracy'.*accuracy"):
        Expression("acuracy + 1").check(FACTS)


@given(st.text(max_size=60))
def test_any_text_is_an_expression_or_refused(text):
    try:
        made = Expression(text)
        made.check(FACTS)
    except UserError:
        return
    assert math.isfinite(float(made.value(FACTS)))


@pytest.mark.parametrize("text", ["reward + min", "where", "reward + 1" + "0" * 400, "1e999"])
def test_what_has_no_value_is_refused(text):
    with pytest.raises(UserError):
        Expression(text)


def test_values_are_finite_and_bounded():
    assert float(Expression("1e300 * 1e300").value({})) == LARGEST
    assert float(Expression("accuracy * 1").value({"accuracy": math.nan})) == 0.0
