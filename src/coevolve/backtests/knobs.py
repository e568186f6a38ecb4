"""The backtest of knobs: a bet on the new ones beside a bet on those in force.

That answers differ, so that there is anything to learn from, is asked for only as a sign of life.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from coevolve.backtests.bets import Bench, Bet
from coevolve.backtests.numbers import CORRECT, SIGNAL, chance, count, follows, share
from coevolve.core.rollout import Rollout
from coevolve.core.seeds import derive
from coevolve.domains.base import Domain
from coevolve.evaluation.difference import resampled
from coevolve.evaluation.shape import shaped
from coevolve.evaluation.statistics import Rate
from coevolve.harness.backtest import Backtest, Measure, Prediction
from coevolve.harness.expression import Numbers
from coevolve.harness.harness import Harness
from coevolve.harness.patch import Patch
from coevolve.harness.rules import BacktestRule

SURELY = 0.95
"""Chance of a gain from which one is predicted."""


class Odds(NamedTuple):
    """Of one bet against another."""

    gain: Measure
    """Of the predicted worth."""
    better: float
    """Chance that there is a gain, by resampling pairs."""


def backtest_knobs(
    patch: Patch,
    harnesses: tuple[Harness, Harness],
    domain: Domain,
    bench: Bench,
    rule: BacktestRule,
    seed: int,
    among: int = 1,
) -> Backtest:
    """Bet on the knobs before and after. The best of several is the best by chance, too: `among`
    says how many there are, and each has to be the surer."""
    old, new = (
        bench.bet(one, lambda drawn, text=one.reward: rewarded(drawn, text, domain))  # type: ignore[misc]
        for one in harnesses
    )
    found, before, after = odds(old, new, seed), old.alive, new.alive
    asked = 1 - (1 - rule.confidence) / among
    lives, surely = after.value >= rule.least_alive, found.better >= asked
    said = (
        f"{bench.by} {new.values.mean():.4g}, before {old.values.mean():.4g}: better with a chance "
        f"of {chance(found.better)}; {after.value:.0%} of {after.n} groups carry signal, before "
        f"{before.value:.0%} of {before.n}"
    )
    if not lives:
        said = f"hardly anything to learn from ({said}; {rule.least_alive:.0%} is needed)"
    elif not surely:
        said = f"not surely better for the target ({said}; {asked:.1%} is needed)"
    return Backtest(
        passed=lives and surely,
        words=said,
        prediction=predicted(patch, found.better, before, after),
        measures={
            "gain": found.gain,
            "better": count(found.better, found.gain.n),
            "worth_before": count(float(old.values.mean()), len(old.values)),
            "worth_after": count(float(new.values.mean()), len(new.values)),
            "dead_before": share(before.n - before.successes, before.n),
            "dead_after": share(after.n - after.successes, after.n),
        },
    )


def rewarded(rollouts: Sequence[Rollout], text: str, domain: Domain) -> list[Rollout]:
    """The same rollouts with what the harness makes of their rewards."""
    rewards = shaped(text, rollouts, domain.components).values
    return [
        one.model_copy(update={"outcome": one.outcome.model_copy(update={"reward": float(reward)})})
        for one, reward in zip(rollouts, rewards, strict=True)
    ]


def odds(old: Bet, new: Bet, seed: int) -> Odds:
    """Pair by pair."""
    n = min(len(old.values), len(new.values))
    changes: Numbers = new.values[:n] - old.values[:n]
    if not n or not changes.any():
        return Odds(Measure(value=0.0, n=n, low=0.0, high=0.0), 0.5 if n else 0.0)
    means = resampled(changes, np.random.default_rng(derive(seed, "bet", n)))
    low, high = np.quantile(means, (0.025, 0.975))
    gain = Measure(value=float(changes.mean()), n=n, low=float(low), high=float(high))
    return Odds(gain, float((means > 0).mean()))


def predicted(patch: Patch, better: float, before: Rate, after: Rate) -> Prediction:
    """Diagnostics of the signal follow live groups, the score follows the bet."""
    if patch.metric in SIGNAL:
        apart = (after.low > before.high) - (after.high < before.low)
        return follows(patch.metric, float(apart), 1.0)
    if patch.metric not in CORRECT:
        return "unclear"
    return "up" if better >= SURELY else "down" if better <= 1 - SURELY else "unclear"
