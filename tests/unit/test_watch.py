"""The watch stops what goes wrong, says why, and leaves alone what goes well."""

import pytest

from coevolve.engines.watch import Watch
from coevolve.harness.rules import WatchRule

FINE = {
    "loss": 0.1, "grad_norm": 0.5, "entropy": 0.4, "drift": 0.01, "dead": 0.3, "length": 40.0,
    "cut": 0.02, "reward": 0.5,
}  # fmt: skip


def steps(*changes: dict[str, float]) -> list[str | None]:
    watch = Watch(WatchRule(patience=3))
    return [watch.see({**FINE, **change}) for change in ({}, *changes)]


@pytest.mark.parametrize("name", ["loss", "grad_norm"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_stops_at_once(name: str, value: float) -> None:
    found = steps({name: value})
    assert found[0] is None
    assert name in str(found[1])


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"entropy": 0.01}, "entropy collapsed from 0.4 to 0.01"),
        ({"drift": 3.0}, "3 nats per token"),
        ({"dead": 1.0}, "100% of the groups are dead"),
        ({"length": 200.0}, "answers grew from 40 to 200"),
        ({"cut": 0.8}, "80% of the answers are cut off"),
        ({"logprob_gap": 0.4}, "by 0.4 nats per token"),
        ({"importance_ratio": 0.7}, "their mean ratio is 0.7 instead of 1"),
        ({"importance_ratio": 1.3}, "their mean ratio is 1.3 instead of 1"),
    ],
)
def test_each_limit_needs_patience(bad: dict[str, float], said: str) -> None:
    assert steps(bad, bad)[-1] is None
    stopped = steps(bad, bad, bad)[-1]
    assert stopped is not None
    assert said in stopped
    assert "3 steps in a row" in stopped
    assert steps(bad, bad, {}, bad)[-1] is None


@pytest.mark.parametrize("bad", [{"logprob_gap": 0.4}, {"importance_ratio": 0.7}])
def test_who_draws_otherwise_from_the_start_is_stopped_at_once(bad: dict[str, float]) -> None:
    said = Watch(WatchRule(patience=3)).see({**FINE, **bad})
    assert "at the first step: tokens are drawn with other probabilities" in str(said)


def test_drift_is_watched_though_it_is_measured_at_some_steps_only() -> None:
    watch, rare = Watch(WatchRule(patience=3)), {k: v for k, v in FINE.items() if k != "drift"}
    found = [watch.see({**rare, "drift": 3.0} if step % 5 == 0 else rare) for step in range(4)]
    assert found[:2] == [None, None]
    assert "3 nats per token" in str(found[2])
    assert "4 nats per token" in str(steps(*[{"kl": 4.0}] * 3)[-1])


def test_rewards_below_zero_are_no_fall() -> None:
    watch = Watch(WatchRule(patience=3))
    told = [watch.see({**FINE, "reward": -0.3 + 0.01 * step}) for step in range(20)]
    assert told == [None] * 20


def test_a_reward_that_falls_apart_stops_a_stage() -> None:
    good, bad = [{}] * 4, [{"reward": 0.05}] * 5
    found = steps(*good, *bad)
    assert found[-1] is not None
    assert "reward fell from 0.500 to 0.050" in found[-1]
    assert steps(*good, *[{"reward": 0.3}] * 9)[-1] is None


def test_calm_is_false_from_the_first_strike_on() -> None:
    watch = Watch(WatchRule())
    watch.see(FINE)
    assert watch.calm
    watch.see({**FINE, "dead": 1.0})  # which moves no weights
    assert watch.calm
    watch.see({**FINE, "drift": 9.0})
    assert not watch.calm
    watch.see(FINE)
    assert watch.calm


def test_a_stage_that_begins_with_long_answers_is_not_blamed_for_them() -> None:
    watch = Watch(WatchRule(patience=1))
    assert watch.see({**FINE, "cut": 0.9}) is None
    assert watch.see({**FINE, "cut": 0.95}) is None


def test_answers_that_grow_and_earn_more_go_on() -> None:
    long = [{"length": 400.0, "reward": 0.5 + 0.02 * step} for step in range(12)]
    assert steps(*[{}] * 3, *long)[-1] is None
    cut = [{"cut": 0.7, "reward": 0.5 + 0.02 * step} for step in range(12)]
    assert steps(*[{}] * 3, *cut)[-1] is None
    assert "cut off" in str(steps(*[{}] * 3, *[{"cut": 0.7}] * 4)[-1])
    same = [{"length": 400.0}] * 4
    assert "earn no more" in str(steps(*[{}] * 3, *same)[-1])
