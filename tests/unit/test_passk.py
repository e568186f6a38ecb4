"""pass@k against what it stands for: all choices of k attempts, one by one."""

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.evaluation.tally import pass_at, powers_up_to


@given(st.lists(st.booleans(), min_size=1, max_size=9), st.data())
def test_it_is_the_share_of_choices_with_a_success(outcomes, data):
    k = data.draw(st.integers(1, len(outcomes)))
    choices = [any(choice) for choice in combinations(outcomes, k)]
    expected = Fraction(sum(choices), len(choices))
    assert pass_at(k, len(outcomes), sum(outcomes)) == float(expected)


@given(st.integers(1, 300), st.data())
def test_its_ends_and_its_order(attempts, data):
    successes = data.draw(st.integers(0, attempts))
    rates = [pass_at(k, attempts, successes) for k in range(1, attempts + 1)]
    assert rates[0] == successes / attempts
    assert rates[-1] == float(successes > 0)
    assert rates == sorted(rates)
    assert all(0 <= rate <= 1 for rate in rates)


@pytest.mark.parametrize("wrong", [(0, 4, 2), (5, 4, 2), (2, 4, 5), (2, 4, -1), (1, 0, 0)])
def test_what_has_no_answer_is_refused(wrong):
    with pytest.raises(ValueError, match="use 1 <= k <= attempts"):
        pass_at(*wrong)


def test_which_k_are_reported():
    assert [powers_up_to(samples) for samples in (1, 2, 3, 8, 10)] == [
        [1], [1, 2], [1, 2], [1, 2, 4, 8], [1, 2, 4, 8],
    ]  # fmt: skip
