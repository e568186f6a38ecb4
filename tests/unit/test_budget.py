"""Budgets: what adds up, what is left, and who says so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from coevolve.core.errors import LedgerError
from coevolve.harness.budget import Budget, Spent
from coevolve.store.ledger import Ledger
from coevolve.store.spent import spent_so_far

COUNTS = st.integers(0, 10**9)
AMOUNTS = st.floats(0, 1e9)
SPENT = st.builds(Spent, rollouts=COUNTS, tokens=COUNTS, seconds=AMOUNTS, money=AMOUNTS)
BUDGETS = st.builds(
    Budget,
    rollouts=st.none() | COUNTS, tokens=st.none() | COUNTS,
    seconds=st.none() | AMOUNTS, money=st.none() | AMOUNTS,
)  # fmt: skip


@given(SPENT, SPENT, SPENT)
def test_spending_adds_up(one, other, third):
    assert one + other == other + one
    assert one + Spent() == one
    left, right = (one + other) + third, one + (other + third)
    assert (left.rollouts, left.tokens) == (right.rollouts, right.tokens)
    assert left.seconds == pytest.approx(right.seconds)
    assert left.money == pytest.approx(right.money)


@given(BUDGETS, SPENT, SPENT)
def test_limits(budget, spent, planned):
    left = budget.left(spent)
    limits = budget.model_dump(exclude_none=True)
    assert left.keys() == limits.keys()
    assert all(0 <= left[name] <= limits[name] for name in left)
    for name in limits:
        over = getattr(spent, name) > limits[name]
        assert (f"budget of {name} is used up" in budget.exhausted(spent)) >= over
    if budget.allows(planned, spent):
        assert budget.allows(Spent(), spent)
        # Sums are compared up to rounding, which is relative to the limit.
        assert all(
            getattr(planned, name) <= left[name] + 1e-8 * limits[name] + 1e-9 for name in limits
        )
    if not budget.allows(Spent(), spent):
        assert budget.exhausted(spent)


@given(BUDGETS)
def test_all_that_is_left_may_be_spent(budget):
    everything = Spent(**budget.left(Spent()))
    assert budget.allows(everything, Spent())
    assert bool(budget.exhausted(everything)) == bool(budget.left(Spent()))


def test_sums_of_fractions_do_not_matter():
    budget, spent = Budget(money=0.3), Spent(money=0.1) + Spent(money=0.1)
    assert budget.allows(Spent(money=0.1), spent)
    assert budget.exhausted(spent) == ""
    assert budget.exhausted(spent + Spent(money=0.1)) == (
        "the budget of money is used up: 0.3 of 0.3"
    )


def test_words():
    budget = Budget(rollouts=1000, tokens=5)
    assert budget.exhausted(Spent(rollouts=1200)) == (
        "the budget of rollouts is used up: 1,200 of 1,000"
    )
    assert "; the budget of tokens" in budget.exhausted(Spent(rollouts=1000, tokens=5))
    assert Budget().exhausted(Spent(rollouts=10**12)) == ""
    assert Budget(rollouts=0).exhausted(Spent()) == "the budget of rollouts is used up: 0 of 0"


@pytest.mark.parametrize(
    "values", [{"rollouts": -1}, {"tokens": 1.5}, {"seconds": float("nan")}, {"euros": 3}]
)
def test_what_is_no_budget(values):
    for kind in (Budget, Spent):
        with pytest.raises(ValidationError):
            kind(**values)


def test_spending_is_read_from_the_ledger(tmp_path):
    with Ledger.create(tmp_path / "run", {}) as ledger:
        assert spent_so_far(ledger) == Spent()
        for number in range(3):
            for _ in range(2):
                ledger.phase(
                    f"versions/{number:02d}",
                    "train",
                    lambda: {"spent": {"rollouts": 8, "seconds": 0.5}},
                )
        ledger.note("budget", spent=Spent(tokens=100).model_dump())
        ledger.note("warning", text="spent")
        assert spent_so_far(ledger) == Spent(rollouts=24, seconds=1.5, tokens=100)
        ledger.note("budget", spent={"rollouts": -4})
        with pytest.raises(LedgerError, match=r"event 10 of .*spent\.rollouts is -4"):
            spent_so_far(ledger)
