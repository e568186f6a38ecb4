"""The gate, by both rules: noise changes nothing, a real fall or gain does, what was solved is
protected, and what is not valid is reverted."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.core.rollout import Message, Outcome, Rollout, StopReason
from coevolve.core.splits import Split
from coevolve.evaluation.difference import Difference, paired
from coevolve.evaluation.gate import (
    Rules,
    Ruling,
    Side,
    better,
    luck,
    no_worse,
    no_worse_than_best,
)
from coevolve.evaluation.spread import GUESS, Spread, spread_of
from coevolve.gallery.null import LEVEL, null_answers, null_trainings
from coevolve.harness.diagnostic import Alarm
from coevolve.harness.patch import Patch
from coevolve.harness.plan import Objective
from coevolve.harness.rules import GateRule
from coevolve.loop.begin import noise_of


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


RULE = GateRule()
ALARM = Alarm(
    diagnostic="history_read", layer="behaviour", version=1, level="critical", value=0.5,
    threshold=0.1, direction="above", n=100, blocks=True,
)  # fmt: skip


def judge(before: list[Rollout], after: list[Rollout], rule: GateRule = RULE) -> Ruling:
    """By the rule that asks for no worse."""
    return no_worse(Side(before), Side(after), Rules(rule))


def against_best(
    before: list[Rollout], best: list[Rollout], among: int, after: list[Rollout]
) -> Ruling:
    strongest = None if best is before else Side(best)
    return no_worse_than_best(Side(before), strongest, among, Side(after), Rules(), None)


def test_the_same_policy_is_kept() -> None:
    before = measured({3: 0.9, 8: 0.3}, 100, 0)
    verdict = judge(before, before)
    assert verdict.kept
    assert verdict.change.mean == 0
    assert "no worse" in verdict.words


def test_noise_is_kept_nearly_always() -> None:
    rule = GateRule()
    kept = [
        judge(measured({3: 0.5}, 200, seed), measured({3: 0.5}, 200, seed + 1_000), rule).kept
        for seed in range(40)
    ]
    assert sum(kept) >= 37


def test_noise_in_many_solved_buckets_is_kept_nearly_always() -> None:
    """With a rate at which some seem solved by luck, and all have a chance to fall."""
    rates, rule = dict.fromkeys(range(3, 13), 0.88), GateRule()
    kept = [
        judge(measured(rates, 40, seed), measured(rates, 40, seed + 1_000), rule).kept
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
            kept.append(against_best(before, best, among, after).kept)
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
    assert judge(before, after, GateRule(margin=1)).kept
    assert not judge(before, after, GateRule(margin=1, least=8, solved=0.5)).kept


def test_a_fall_is_reverted_and_a_rise_kept() -> None:
    low, high = measured({3: 0.4}, 300, 1), measured({3: 0.6}, 300, 2)
    fallen = judge(high, low)
    assert not fallen.kept
    assert "fell by more than 2 points" in fallen.words
    assert f"n {300}" in fallen.words
    assert fallen.change.told() in fallen.words
    risen = judge(low, high)
    assert risen.kept
    assert "better" in risen.words


def test_what_was_solved_is_protected_even_if_the_rest_gains() -> None:
    before = measured({3: 1.0, 8: 0.2}, 200, 3)
    after = measured({3: 0.7, 8: 0.7}, 200, 4)
    verdict = judge(before, after)
    assert verdict.change.mean > 0
    assert not verdict.kept
    assert list(verdict.broken) == ["size 3"]
    assert verdict.broken["size 3"].n == 200
    assert judge(before, after, GateRule(protected_fall=0.5)).kept


def test_the_gate_can_be_switched_off() -> None:
    verdict = judge(measured({3: 1.0}, 50, 0), measured({3: 0.0}, 50, 0), GateRule(on=False))
    assert verdict.kept
    assert "gate is off" in verdict.words


def test_other_tasks_are_refused() -> None:
    with pytest.raises(ValueError, match="same gate tasks"):
        judge([attempt(1, True)], [attempt(2, True)])


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
    assert judge(best, before, rule).kept
    assert judge(before, after, rule).kept
    verdict = against_best(before, best, 3, after)
    assert not verdict.kept
    assert verdict.words.startswith("reverted: against the best so far, the valid rate fell")
    assert verdict.change == judge(before, after, rule).change, "that against the one before"
    assert against_best(before, before, 3, after).kept


def first(count: int, n: int = 200, size: int = 3) -> list[Rollout]:
    """Of n tasks the first `count` succeed."""
    return [attempt(number, number < count, size) for number in range(n)]


def patch(**changes: object) -> Patch:
    values = {"factor": "recipe.kl", "value": 0.1, "hypothesis": "If so, then so.", **changes}
    return Patch.model_validate(values)


@pytest.mark.parametrize(
    ("before", "after", "spread", "verdict"),
    [
        (100, 130, 0.0, "kept"),
        (100, 100, 0.0, "pruned"),
        (100, 102, 0.0, "pruned"),
        (100, 130, 0.1, "pruned"),
        (100, 70, 0.0, "reverted"),
    ],
)
def test_verdicts_where_better_is_asked_for(
    before: int, after: int, spread: float, verdict: str
) -> None:
    rules = Rules(spread=Spread(spread, 1))
    found = better(Side(first(before)), Side(first(after)), rules, patch())
    assert found.verdict == verdict


def test_the_more_are_compared_the_more_is_asked_for() -> None:
    before, after = Side(first(100)), Side(first(112))
    alone = better(before, after, Rules())
    tenth = better(before, after, Rules(among=10))
    assert tenth.change.low < alone.change.low < alone.change.mean == tenth.change.mean


@pytest.mark.parametrize("rule", [no_worse, better])
def test_an_alarm_that_blocks_outweighs_any_score(rule: Any) -> None:
    after = Side(first(200), {}, [ALARM])
    found = rule(Side(first(10)), after, Rules(), patch())
    assert found.verdict == "reverted"
    assert "history_read" in found.words


@pytest.mark.parametrize("rule", [no_worse, better])
def test_a_training_that_was_stopped_is_no_gain(rule: Any) -> None:
    after = Side(first(130), {}, stopped="entropy collapsed at step 9")
    found = rule(Side(first(100)), after, Rules(), patch())
    assert found.change.low > 0
    assert found.verdict == "reverted"
    assert "entropy collapsed" in found.words


@pytest.mark.parametrize("rule", [no_worse, better])
def test_what_was_solved_must_stay_so(rule: Any) -> None:
    easy = [attempt(number, True, 3) for number in range(60)]
    hard = [attempt(1_000 + number, False, 9) for number in range(200)]
    lost = [attempt(number, number >= 30, 3) for number in range(60)]
    won = [attempt(1_000 + number, number < 150, 9) for number in range(200)]
    found = rule(Side(easy + hard), Side(lost + won), Rules(), patch())
    assert found.change.low > 0
    assert found.verdict == "reverted"
    assert "size 3" in found.broken


def plain_only(rollouts: list[Rollout]) -> list[Rollout]:
    """Valid as they were, and none of them optimal."""
    return [
        one.model_copy(update={"outcome": one.outcome.model_copy(update={"optimal": False})})
        for one in rollouts
    ]


@pytest.mark.parametrize("rule", [no_worse, better])
def test_a_metric_that_the_objective_protects_must_not_fall(rule: Any) -> None:
    before, after = first(100), plain_only(first(130))
    found = rule(Side(before), Side(after), Rules())
    assert found.change.low > 0
    assert found.protected["optimal"].mean == pytest.approx(-0.5)
    assert found.verdict == "reverted"
    assert list(found.broken) == ["optimal"]
    free = Rules(objective=Objective(protect=()))
    assert rule(Side(before), Side(after), free).kept


def test_the_objective_decides() -> None:
    before, after = first(100), plain_only(first(130))
    rules = Rules(objective=Objective(metric="optimal", protect=()))
    assert better(Side(before), Side(after), rules).verdict == "reverted"
    assert better(Side(after), Side(before), rules).verdict == "kept"


@pytest.mark.parametrize(
    ("readings", "verdict"),
    [
        ((0.5, 0.2), "kept"),
        ((0.5, 0.45), "pruned"),
        ((0.2, 0.5), "pruned"),
        ((0.5, None), "pruned"),
    ],
)
def test_the_stated_reason_must_hold(readings: tuple[float, float | None], verdict: str) -> None:
    before, after = ({} if one is None else {"dead_groups": one} for one in readings)
    wanted = patch(metric="dead_groups", direction="down", least=0.1)
    found = better(Side(first(100), before), Side(first(130), after), Rules(), wanted)
    assert found.verdict == verdict


def test_several_attempts_at_a_task_are_one_task() -> None:
    four = [one.model_copy(update={"sample": sample}) for one in first(100) for sample in range(4)]
    assert better(Side(four), Side(four), Rules()).change.n == 200


def test_the_spread_between_trainings_comes_from_twins() -> None:
    none = noise_of(first(100), [], [], 0)
    assert none.spread == pytest.approx(GUESS)
    near = noise_of(first(100), [first(104)], [first(101), first(99), first(100)], 0)
    far = noise_of(first(100), [], [first(80), first(120), first(75)], 0)
    assert near.spread < none.spread < far.spread
    assert len(far.twins) == 3
    few, many = spread_of((), far.twins), spread_of((), far.twins * 10)
    change = better(Side(first(100)), Side(first(130)), Rules()).change
    assert few.widened(change).low < many.widened(change).low < change.low


def test_chance_is_seldom_kept_and_a_gain_often() -> None:
    rng = random.Random(0)
    answers = []
    for task in range(100):
        rate = rng.random()
        answers.append(
            [
                attempt(task, rng.random() < rate).model_copy(update={"sample": sample})
                for sample in range(4)
            ]
        )
    found = null_answers(answers, 2, 25, 0.2, RULE, 0)
    assert found.false_keeps.low <= LEVEL
    assert found.false_keeps.value <= 0.08
    assert found.found.value >= 0.8
    assert found.as_json()["found"]["n"] == 25


def test_the_chance_of_training_is_seldom_kept() -> None:
    """Trainings that differ by their seed by two points, which evaluation alone would call real."""
    rng, gates = random.Random(1), []
    for _ in range(16):
        shift = rng.gauss(0, 0.03)
        gates.append([attempt(n, n / 400 < 0.5 + shift, 3) for n in range(400)])
    guarded = null_trainings(gates, 60, 0.2, GateRule(twins=3), 0)
    blind = sum(better(Side(gates[n]), Side(gates[n + 1]), Rules()).kept for n in range(15))
    assert blind >= 3
    assert guarded.false_keeps.value <= 0.05
    assert guarded.found.value >= 0.8
    assert guarded.trainings == 16


@pytest.mark.parametrize("among", [2, 5, 18])
def test_luck_is_more_than_the_best_of_many_that_are_alike_is_ahead_by(among: int) -> None:
    scores = np.random.default_rng(0).normal(0.3, 0.01, size=(20_000, among))
    ahead = scores.max(axis=1) - scores[:, -1]
    width = 1.96 * 0.01 * 2**0.5  # of the difference of two
    told = Difference(mean=0.0, low=-width, high=width, p=1.0, n=600)
    assert ahead.mean() < luck(told, among) < np.quantile(ahead, 0.9)
