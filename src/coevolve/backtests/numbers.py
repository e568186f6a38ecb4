"""Numbers that backtests give, and what metrics they say something about."""

import numpy as np

from coevolve.evaluation.statistics import wilson
from coevolve.harness.backtest import Backtest, Measure, Prediction
from coevolve.harness.expression import Numbers

SIGNAL: dict[str, Prediction] = {
    "dead_groups": "down", "one_value_share": "down", "coarse_reward": "down",
    "usable_advantages": "up", "reward_spread": "up",
}  # fmt: skip
"""Diagnostics of the signal, and where they go when there is more of it."""
LENGTH = (
    "answer_tokens", "truncation", "length_growth", "length_change", "length_pays", "failed_longer",
    "turns", "turns_few", "turns_many", "turns_rising", "echo",
)  # fmt: skip
"""Diagnostics of length: a patch for one of them may well pay for length."""
CORRECT = ("valid", "optimal", "reward", "valid_rate", "optimal_rate", "mean_reward")
"""Metrics of the score."""
QUANTITIES = {
    "valid": "valid", "valid_rate": "valid", "train_valid_rate": "valid",
    "optimal": "optimal", "optimal_rate": "optimal", "reward": "reward", "mean_reward": "reward",
    "answer_tokens": "tokens", "length_growth": "tokens", "length_change": "tokens",
    "truncation": "truncated", "turns": "turns", "turns_few": "turns", "turns_many": "turns",
}  # fmt: skip
"""Metrics that are the mean of a fact of rollouts, or move with it."""


TOUCH = 0.02
"""A push of less predicts nothing; the reward that is nothing but a fact pushes it by 1 at most."""


def count(value: float, n: int) -> Measure:
    return Measure(value=float(value), n=n)


def share(part: float, n: int) -> Measure:
    """A part of n with its Wilson interval."""
    rate = wilson(int(part), n)
    return Measure(value=rate.value, n=n, low=rate.low, high=rate.high)


def mean(values: Numbers) -> Measure:
    """A mean over independent things with its normal interval; those that are nan do not count."""
    known = values[~np.isnan(values)]
    n = len(known)
    middle = float(known.mean()) if n else 0.0
    if n < 2:
        return Measure(value=middle, n=n)
    reach = 1.96 * float(known.std(ddof=1)) / n**0.5
    return Measure(value=middle, n=n, low=middle - reach, high=middle + reach)


def beyond_noise(change: Measure) -> float:
    """A change whose interval leaves 0 out, else 0."""
    if change.low is None or change.high is None or change.low <= 0 <= change.high:
        return 0.0
    return change.value


def way(change: float, least: float) -> Prediction:
    """The direction of a change, if it is large enough to predict anything by."""
    return "up" if change >= least else "down" if change <= -least else "unclear"


def moved(push: Measure) -> Prediction:
    """The direction of a push that is beyond noise, and more than a touch."""
    return way(beyond_noise(push), TOUCH)


def follows(metric: str, gained: float, least: float) -> Prediction:
    """Where a diagnostic of the signal goes when this much more signal is there."""
    return way(gained if SIGNAL[metric] == "up" else -gained, least)


def judged(
    wrong: list[str], said: str, prediction: Prediction, measures: dict[str, Measure]
) -> Backtest:
    """A backtest that anything wrong makes fail."""
    words = f"{'; '.join(wrong)} ({said})" if wrong else said
    return Backtest(passed=not wrong, words=words, prediction=prediction, measures=measures)


def chance(value: float) -> str:
    """In percent; resampling can be sure of nothing."""
    if value > 0.99:
        return "over 99 %"
    return f"{100 * value:.0f} %" if value >= 0.01 else "under 1 %"


def percent(measure: Measure) -> str:
    return f"{measure.value:.1%} of {measure.n:,}"
