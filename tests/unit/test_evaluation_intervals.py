"""Intervals over several attempts at each task."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.rollout import Outcome, Rollout, StopReason
from coevolve.core.splits import Split
from coevolve.evaluation.clusters import (
    Part,
    cautious,
    clustered,
    mean_and_variance,
    rate_by_task,
    rate_over,
    share,
)
from coevolve.evaluation.statistics import wilson
from coevolve.evaluation.tally import Tally


def rollout(task, sample, valid, size=3, reward=0.0):
    return Rollout(
        task_id=task,
        domain="lake",
        split=Split.DEV,
        bucket={"size": size},
        messages=(),
        outcome=Outcome(
            valid=valid, optimal=valid, reward=reward, components={}, failure=None if valid else "x"
        ),
        stop=StopReason.END,
        sample=sample,
        policy="test",
        completion_tokens=5,
    )


def tallied(table):
    """A tally of tasks, each a list of outcomes."""
    counts = Tally()
    for number, outcomes in enumerate(table):
        for sample, valid in enumerate(outcomes):
            counts.add(rollout(f"t{number}", sample, valid, size=3 + number % 2, reward=valid))
    return counts


@given(st.integers(0, 400), st.integers(1, 400))
def test_one_attempt_per_task_is_plain_wilson(successes, n):
    successes = min(successes, n)
    found = share([Part(str(i), int(i < successes), 1) for i in range(n)], n)
    plain = wilson(successes, n)
    assert found[:3] == pytest.approx((plain.value, plain.low, plain.high), abs=1e-12)
    assert cautious(successes, n, n) == pytest.approx(plain, abs=1e-12)


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=5), max_size=30))
def test_counts_by_task_tell_the_same_as_tasks(table):
    right, tried = np.array([sum(one) for one in table], int), np.array(list(map(len, table)), int)
    parts = [Part(str(place), sum(one), len(one)) for place, one in enumerate(table)]
    assert rate_by_task(right, tried) == pytest.approx(rate_over(parts), abs=1e-9)


@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=30))
def test_several_attempts_are_worth_no_less_than_tasks_and_no_more_than_attempts(table):
    counts = tallied(table)
    rate = counts.by([])[0].valid
    n, tasks = rate.n, len(table)
    width = rate.high - rate.low
    narrow = share([Part(str(i), rate.successes / n, 1) for i in range(n)], n)
    wide = share([Part(str(i), rate.successes / n, 1) for i in range(tasks)], tasks)
    assert n == 4 * tasks
    assert narrow.high - narrow.low <= width + 1e-9
    assert width <= wide.high - wide.low + 1e-9
    assert rate.low <= rate.value <= rate.high
    assert counts.pass_at()[1][:3] == pytest.approx((rate.value, rate.low, rate.high))


def test_copies_of_an_attempt_add_nothing():
    once = tallied([[i % 3 == 0] for i in range(30)]).by([])[0].valid
    copied = tallied([[i % 3 == 0] * 8 for i in range(30)]).by([])[0].valid
    assert (copied.n, copied.value) == (240, once.value)
    assert (copied.low, copied.high) == pytest.approx((once.low, once.high))


def test_a_task_listed_twice_is_one_cluster():
    counts = Tally()
    for _ in range(2):
        for number in range(20):
            counts.add(rollout(f"t{number}", 0, number < 10))
    rate, plain = counts.by([])[0].valid, wilson(10, 20)
    assert (rate.n, rate.successes) == (40, 20)
    assert (rate.low, rate.high) == pytest.approx((plain.low, plain.high))
    assert counts.pass_at()[1].tasks == 40


def test_independent_attempts_are_nearly_tasks_of_their_own():
    rng = np.random.default_rng(0)
    rate = tallied((rng.random((500, 4)) < 0.5).tolist()).by([])[0].valid
    plain = wilson(rate.successes, rate.n)
    assert rate.high - rate.low == pytest.approx(plain.high - plain.low, rel=0.1)


def test_intervals_hold_what_they_promise():
    """Tasks of very different difficulty: plain Wilson intervals would cover 72 %, not 95 %."""
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(400):
        successes = rng.binomial(4, rng.beta(0.3, 0.3, 30))
        parts = [Part(str(i), int(count), 4) for i, count in enumerate(successes)]
        found = share(parts, 120)
        covered += found.low <= 0.5 <= found.high
    assert 0.91 <= covered / 400 <= 0.98


def test_groups_are_those_of_plain_counts_with_wider_intervals():
    counts = tallied([[True, False, True], [False] * 3, [True] * 3, [False, True, False]])
    sizes = [({"size": 3}, 5, 6), ({"size": 4}, 1, 6)]
    missing = [({**labels, "missing": None}, valid, n) for labels, valid, n in sizes]
    for expected in ([({}, 6, 12)], sizes, missing):
        found = counts.by(list(expected[0][0]))
        for one, (labels, valid, n) in zip(found, expected, strict=True):
            plain = wilson(valid, n)
            assert one.labels == labels
            assert one.valid[:2] == (valid, n)
            assert (one.reward, one.failures) == (valid / n, {"x": n - valid})
            assert one.valid.high - one.valid.low >= plain.high - plain.low


def test_pass_at_k_averages_over_tasks():
    found = tallied([[True, False, False, False], [True] * 4, [False] * 4, [True] * 4]).pass_at()
    assert {k: estimate.value for k, estimate in found.items()} == pytest.approx(
        {1: 2.25 / 4, 2: 2.5 / 4, 4: 3 / 4}
    )


def test_rewards_have_an_interval_from_two_tasks_on():
    assert Tally().reward_interval() is None
    assert tallied([[True, False]]).reward_interval() is None
    low, high = tallied([[True, False], [True, True], [False, False]]).reward_interval()
    parts = [Part("a", 1, 2), Part("b", 2, 2), Part("c", 0, 2)]
    mean, variance = mean_and_variance(*clustered(parts))
    assert mean == 0.5
    assert variance == pytest.approx(np.var([0.5, 1, 0], ddof=1) / 3)
    assert (low + high) / 2 == pytest.approx(0.5)


def test_nothing_at_all_is_everything_possible():
    rate = Tally().by([])[0].valid
    assert (rate.n, rate.low, rate.high) == (0, 0.0, 1.0)
    assert Tally().pass_at() == {}
