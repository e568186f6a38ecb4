"""The gate: noise reverts nothing, a real fall does, and solved buckets are protected."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.core.rollout import Message, Outcome, Rollout, StopReason
from coevolve.core.splits import Split
from coevolve.evaluation.paired import paired
from coevolve.evolution.gate import judge, judge_twice
from coevolve.harness.rules import GateRule


def attempt(number: int, valid: bool, size: int = 3, reward: float | None = None) -> Rollout:
    return Rollout(
        task_id=f"task-{number}",
        domain="lake",
        split=Split.GATE,
        bucket={"size": size},
        messages=(Message(role="user", content="?"),),
        outcome=Outcome(
            valid=valid,
            optimal=valid,
            reward=float(valid) if reward is None else reward,
            components={},
            failure=None if valid else "goal",
        ),
        stop=StopReason.END,
        sample=0,
        policy="some",
    )


def measured(rates: dict[int, float], each: int, seed: int) -> list[Rollout]:
    rng = random.Random(seed)
    return [
        attempt(size * 10_000 + number, rng.random() < rate, size)
        for size, rate in rates.items()
        for number in range(each)
    ]


def test_the_same_policy_is_kept() -> None:
    before = measured({3: 0.9, 8: 0.3}, 100, 0)
    verdict = judge(before, before, GateRule(), 0)
    assert verdict.keep
    assert verdict.change.mean == 0
    assert "no worse" in verdict.words


def test_noise_is_kept_nearly_always() -> None:
    rule = GateRule()
    kept = [
        judge(measured({3: 0.5}, 200, seed), measured({3: 0.5}, 200, seed + 1_000), rule, 0).keep
        for seed in range(40)
    ]
    assert sum(kept) >= 37


def test_noise_in_many_solved_buckets_is_kept_nearly_always() -> None:
    """With a rate at which some seem solved by luck, and all have a chance to fall."""
    rates, rule = dict.fromkeys(range(3, 13), 0.88), GateRule()
    kept = [
        judge(measured(rates, 40, seed), measured(rates, 40, seed + 1_000), rule, 0).keep
        for seed in range(60)
    ]
    assert sum(kept) >= 54


@pytest.mark.parametrize(
    ("rates", "each", "least"),
    [({3: 0.5}, 200, 0.94), (dict.fromkeys(range(3, 13), 0.88), 40, 0.86)],
)
def test_noise_over_many_rounds_is_kept_nearly_always(
    rates: dict[int, float], each: int, least: float
) -> None:
    """The best of many is so by luck: to be worse than it must not get ever easier."""
    kept = []
    for chain in range(8):
        before = best = measured(rates, each, chain)
        among = 1
        for number in range(15):
            after = measured(rates, each, 1_000 + 100 * chain + number)
            kept.append(judge_twice(before, best, among, after, GateRule(), 0).keep)
            if kept[-1]:
                among, before = among + 1, after
                best = max(best, after, key=lambda one: sum(r.outcome.valid for r in one))
    assert sum(kept) >= least * len(kept)


def test_a_bucket_is_protected_for_its_tasks_and_not_its_attempts() -> None:
    before, after = (
        [
            one.model_copy(update={"sample": sample})
            for one in measured({3: rate}, 8, 0)
            for sample in range(4)
        ]
        for rate in (1.0, 0.0)
    )
    assert judge(before, after, GateRule(margin=1), 0).keep
    assert not judge(before, after, GateRule(margin=1, least=8, solved=0.5), 0).keep


def test_a_fall_is_reverted_and_a_rise_kept() -> None:
    low, high = measured({3: 0.4}, 300, 1), measured({3: 0.6}, 300, 2)
    fallen = judge(high, low, GateRule(), 0)
    assert not fallen.keep
    assert "fell by more than 0.02" in fallen.words
    assert f"n {300}" in fallen.words
    risen = judge(low, high, GateRule(), 0)
    assert risen.keep
    assert "better" in risen.words


def test_what_was_solved_is_protected_even_if_the_rest_gains() -> None:
    before = measured({3: 1.0, 8: 0.2}, 200, 3)
    after = measured({3: 0.7, 8: 0.7}, 200, 4)
    verdict = judge(before, after, GateRule(), 0)
    assert verdict.change.mean > 0
    assert not verdict.keep
    assert list(verdict.broken) == ["size 3"]
    assert verdict.broken["size 3"].n == 200
    assert judge(before, after, GateRule(protected_fall=0.5), 0).keep


def test_the_gate_can_be_switched_off() -> None:
    verdict = judge(measured({3: 1.0}, 50, 0), measured({3: 0.0}, 50, 0), GateRule(on=False), 0)
    assert verdict.keep
    assert "gate is off" in verdict.words


def test_other_tasks_are_refused() -> None:
    with pytest.raises(ValueError, match="same gate tasks"):
        judge([attempt(1, True)], [attempt(2, True)], GateRule(), 0)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_a_difference_is_the_mean_and_lies_in_its_interval(pairs: list[tuple[bool, bool]]) -> None:
    before, after = [float(one) for one, _ in pairs], [float(other) for _, other in pairs]
    found = paired(before, after)
    assert found.mean == pytest.approx(sum(after) / len(after) - sum(before) / len(before))
    assert found.low - 1e-9 <= found.mean <= found.high + 1e-9
    assert 0 <= found.p <= 1
    back = paired(after, before)
    assert back.mean == pytest.approx(-found.mean)
    assert back.p == pytest.approx(found.p)


def test_falls_that_are_small_each_do_not_add_up() -> None:
    rule, levels = (
        GateRule(),
        [[number < valid for number in range(400)] for valid in (300, 293, 286)],
    )
    best, before, after = ([attempt(*one) for one in enumerate(level)] for level in levels)
    assert judge(best, before, rule, 0).keep
    assert judge(before, after, rule, 0).keep
    verdict = judge_twice(before, best, 3, after, rule, 0)
    assert not verdict.keep
    assert verdict.words.startswith("reverted: against the best so far, the valid rate fell")
    assert verdict.change == judge(before, after, rule, 0).change, "that against the one before"
    assert judge_twice(before, before, 3, after, rule, 0).keep
