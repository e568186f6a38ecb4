"""The backtest of knobs: fresh tasks of the old and the new ones, answered by the parent.

A checkpoint answers a few fresh train tasks of the knobs, several times each: the signal in the
answers is what GRPO could learn from.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from coevolve.backtests.numbers import CORRECT, SIGNAL, count, follows, share
from coevolve.core.rollout import Rollout
from coevolve.core.seeds import derive
from coevolve.domains.base import Domain
from coevolve.domains.knobs import Knobs
from coevolve.evaluation.statistics import Interval, Rate, wilson
from coevolve.harness.backtest import Backtest, Measure, Prediction
from coevolve.harness.expression import Numbers
from coevolve.harness.harness import Harness
from coevolve.harness.patch import Patch
from coevolve.harness.reward import shaped
from coevolve.harness.rules import BacktestRule
from coevolve.policies.base import tokens
from coevolve.store.cells import Cell, cells_of, merged

INCUMBENT = "incumbent"
"""The name of the knobs that are in force."""
SURELY = 0.95
"""Chance of more signal from which a rise is predicted."""
RESAMPLES = 2_000
SOLVED = 0.9


class Probe(NamedTuple):
    """What was measured of knobs."""

    alive: Rate
    """Share of groups with signal."""
    signal: Interval
    """Mean variance of rewards within a group: what GRPO can learn from."""
    better: float
    """Chance that its signal is above the incumbent's."""
    forgotten: Rate
    """Share of the kinds that the incumbent's tasks have solved that its own tasks leave out."""
    tokens: Interval
    """Mean tokens per rollout, prompt and answer: the cost."""


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
    one = measure(base, base, seed, INCUMBENT)
    other = measure(drawn, base, seed, patch.author or "patch")
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


def measure(rollouts: Sequence[Rollout], base: Sequence[Rollout], seed: int, name: str) -> Probe:
    """The numbers of the knobs that `name` proposes, beside the incumbent's rollouts."""
    rng = np.random.default_rng(derive(seed, "backtest", name))
    signal = by_group(rollouts, lambda one: one.outcome.reward, np.var)
    before = by_group(base, lambda one: one.outcome.reward, np.var)
    sizes = by_group(rollouts, lambda one: tokens([one]), np.mean)
    drawn, against = resampled(signal, rng), resampled(before, rng)
    cells = cells_of(rollouts)
    groups = sum(cell.groups for cell in cells)
    return Probe(
        wilson(groups - sum(cell.dead for cell in cells), groups),
        interval(signal, drawn),
        0.5 if name == INCUMBENT else float((drawn > against).mean()),
        forgotten(cells, cells_of(base)),
        interval(sizes, resampled(sizes, rng)),
    )


def forgotten(cells: Sequence[Cell], base: Sequence[Cell]) -> Rate:
    """Of the kinds of tasks that the incumbent has solved, the share that hardly occurs any more.

    Kinds are taken by one label at a time, the coarsest that training balances.
    """
    lost = solved = 0
    total, before = sum(cell.n for cell in cells), sum(cell.n for cell in base)
    for name in base[0].labels if base else ():
        now = {cell.labels[name]: cell.n / total for cell in merged(cells, [name])}
        for cell in merged(base, [name]):
            if cell.rate >= SOLVED and cell.n >= 8:
                solved += 1
                lost += now.get(cell.labels[name], 0.0) < 0.2 * cell.n / before
    return wilson(lost, solved)


def by_group(
    rollouts: Sequence[Rollout], what: Callable[[Rollout], float], of: Callable[[list[float]], Any]
) -> Numbers:
    """One number for each group, from something of its rollouts."""
    groups: dict[str, list[float]] = {}
    for rollout in rollouts:
        groups.setdefault(rollout.group or rollout.task_id, []).append(what(rollout))
    return np.array([of(values) for values in groups.values()], dtype=np.float64)


def resampled(values: Numbers, rng: np.random.Generator) -> Numbers:
    """Means of resampled groups."""
    picks = rng.integers(len(values), size=(RESAMPLES, len(values)))
    means: Numbers = values[picks].mean(axis=1)
    return means


def interval(values: Numbers, means: Numbers) -> Interval:
    low, high = np.quantile(means, (0.025, 0.975))
    return Interval(float(values.mean()), float(low), float(high))
