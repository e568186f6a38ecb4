"""The backtest of knobs: fresh tasks of the old and the new ones, answered by the parent."""

from collections.abc import Callable, Sequence

from coevolve.backtests.numbers import CORRECT, SIGNAL, count, follows, share
from coevolve.backtests.probe import INCUMBENT, Candidate, Probe, measure
from coevolve.core.rollout import Rollout
from coevolve.domains.base import Domain
from coevolve.domains.knobs import Knobs
from coevolve.evaluation.statistics import Interval
from coevolve.harness.backtest import Backtest, Measure, Prediction
from coevolve.harness.harness import Harness
from coevolve.harness.patch import Patch
from coevolve.harness.reward import shaped
from coevolve.harness.rules import BacktestRule

SURELY = 0.95
"""Chance of more signal from which a rise is predicted."""


def backtest_knobs(
    patch: Patch,
    harnesses: tuple[Harness, Harness],
    domain: Domain,
    probe: Callable[[Knobs], list[Rollout]],
    rule: BacktestRule,
    seed: int,
) -> Backtest:
    """Probe the knobs before and after; the rule is that of rounds."""
    old, new = (domain.space.parse(harness.knobs) for harness in harnesses)
    base = rewarded(probe(old), harnesses[0].reward, domain)
    drawn = rewarded(probe(new), harnesses[1].reward, domain)
    one = measure(Candidate(INCUMBENT, old), base, base, seed)
    other = measure(Candidate(patch.author or "patch", new), drawn, base, seed)
    enough = other.better >= rule.confidence
    passed = enough and other.forgotten.value <= rule.most_forgotten
    said = (
        f"{other.alive.value:.0%} of {other.alive.n} groups carry signal, before "
        f"{one.alive.value:.0%} of {one.alive.n}; {other.signal.mean:.4f} of it, before "
        f"{one.signal.mean:.4f}: more with chance {other.better:.0%}"
    )
    if not enough:
        said = f"not surely more signal ({said}; {rule.confidence:.0%} is asked for)"
    elif not passed:
        said = f"it leaves out {other.forgotten.value:.0%} of what is solved ({said})"
    return Backtest(
        passed=passed,
        words=said,
        prediction=predicted(patch, one, other, rule),
        measures=measures_of(one, other),
    )


def rewarded(rollouts: Sequence[Rollout], text: str, domain: Domain) -> list[Rollout]:
    """The same rollouts with what the harness makes of their rewards."""
    rewards = shaped(text, rollouts, domain.components)
    return [
        one.model_copy(update={"outcome": one.outcome.model_copy(update={"reward": float(reward)})})
        for one, reward in zip(rollouts, rewards, strict=True)
    ]


def measures_of(one: Probe, other: Probe) -> dict[str, Measure]:
    before, after = one.alive, other.alive
    return {
        "dead_before": share(before.n - before.successes, before.n),
        "dead_after": share(after.n - after.successes, after.n),
        "signal_before": estimated(one.signal, before.n),
        "signal_after": estimated(other.signal, after.n),
        "better": count(other.better, after.n),
        "forgotten": share(other.forgotten.successes, other.forgotten.n),
        "tokens_before": estimated(one.tokens, before.n),
        "tokens_after": estimated(other.tokens, after.n),
    }


def estimated(interval: Interval, groups: int) -> Measure:
    return Measure(value=interval.mean, n=groups, low=interval.low, high=interval.high)


def predicted(patch: Patch, one: Probe, other: Probe, rule: BacktestRule) -> Prediction:
    """More signal lets the score rise, and moves diagnostics of the signal at once."""
    surely, surely_not = other.better >= SURELY, other.better <= 1 - SURELY
    if patch.metric in SIGNAL:
        return follows(patch.metric, float(surely) - float(surely_not), 1.0)
    if patch.metric not in CORRECT:
        return "unclear"
    if surely_not or other.forgotten.value > rule.most_forgotten:
        return "down"
    return "up" if surely else "unclear"
