"""The gate of a tree: every reason for a verdict, the noise floor, and how often chance is kept."""

import random

import pytest
from test_gate import attempt

from coevolve.core.rollout import Rollout
from coevolve.evidence.health import Alarm
from coevolve.evolution.noise import noise_of
from coevolve.evolution.null import LEVEL, needed, null_test
from coevolve.evolution.promotion import Evidence, promote
from coevolve.harness.patch import Patch
from coevolve.harness.rules import PromotionRule

RULE = PromotionRule()
ALARM = Alarm(
    diagnostic="history_read", layer="behaviour", version=1, level="critical", value=0.5,
    threshold=0.1, direction="above", n=100, blocks=True,
)  # fmt: skip


def first(count: int, n: int = 200, size: int = 3) -> list[Rollout]:
    """Of n tasks the first `count` succeed."""
    return [attempt(number, number < count, size) for number in range(n)]


def patch(**changes: object) -> Patch:
    values = {"factor": "recipe.kl", "value": 0.1, "hypothesis": "If so, then so.", **changes}
    return Patch.model_validate(values)


@pytest.mark.parametrize(
    ("before", "after", "floor", "verdict", "why"),
    [
        (100, 130, 0.0, "kept", "better"),
        (100, 100, 0.0, "pruned", "beyond chance"),
        (100, 102, 0.0, "pruned", "beyond chance"),
        (100, 130, 0.2, "pruned", "noise floor of 0.200"),
        (100, 70, 0.0, "reverted", "worse"),
    ],
)
def test_verdicts(before: int, after: int, floor: float, verdict: str, why: str) -> None:
    found = promote(
        Evidence(first(before), {}), Evidence(first(after), {}), patch(), RULE, floor, 0
    )
    assert found.verdict == verdict
    assert why in found.words


def test_an_alarm_that_blocks_outweighs_any_score() -> None:
    child = Evidence(first(200), {}, [ALARM])
    found = promote(Evidence(first(10), {}), child, patch(), RULE, 0.0, 0)
    assert found.verdict == "reverted"
    assert "history_read" in found.words
    assert found.as_json()["blocking"][0]["diagnostic"] == "history_read"


def test_a_training_that_was_stopped_is_no_gain() -> None:
    child = Evidence(first(130), {}, stopped="entropy collapsed at step 9")
    found = promote(Evidence(first(100), {}), child, patch(), RULE, 0.0, 0)
    assert found.change.low > 0
    assert found.verdict == "reverted"
    assert "entropy collapsed" in found.words


def test_what_was_solved_must_stay_so() -> None:
    easy = [attempt(number, True, 3) for number in range(60)]
    hard = [attempt(1_000 + number, False, 9) for number in range(200)]
    lost = [attempt(number, number >= 30, 3) for number in range(60)]
    won = [attempt(1_000 + number, number < 150, 9) for number in range(200)]
    found = promote(Evidence(easy + hard, {}), Evidence(lost + won, {}), patch(), RULE, 0.0, 0)
    assert found.change.low > 0
    assert found.verdict == "reverted"
    assert "size 3" in found.broken


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
    found = promote(Evidence(first(100), before), Evidence(first(130), after), wanted, RULE, 0.0, 0)
    assert found.verdict == verdict


def test_several_attempts_at_a_task_are_one_task() -> None:
    four = [one.model_copy(update={"sample": sample}) for one in first(100) for sample in range(4)]
    found = promote(Evidence(four, {}), Evidence(four, {}), None, RULE, 0.0, 0)
    assert found.change.n == 200


def test_the_floor_is_the_largest_difference() -> None:
    found = noise_of(first(100), [first(104), first(98)], [first(90)], 0)
    assert found.floor == pytest.approx(0.05)
    assert noise_of(first(100), [], [], 0).floor == 0


def test_chance_is_seldom_kept_and_a_gain_often() -> None:
    rng = random.Random(0)
    answers = []
    for task in range(100):
        rate = rng.random()
        answers.append(
            [
                attempt(task, rng.random() < rate).model_copy(update={"sample": sample})
                for sample in range(needed(RULE, 2))
            ]
        )
    found = null_test(answers, 2, 25, 0.2, RULE, 0)
    assert found.false_keeps.low <= LEVEL
    assert found.false_keeps.value <= 0.08
    assert found.found.value >= 0.8
    assert found.as_json()["found"]["n"] == 25
