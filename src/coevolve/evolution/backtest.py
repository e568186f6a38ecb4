"""The backtest by probing: what a proposal would be worth, before anything is trained on it.

The current checkpoint answers a few fresh train tasks of every candidate, several times each. The
incumbent is always a candidate, and wins unless another carries more signal with some confidence.
That confidence is of each candidate alone: of several that are as good as the incumbent, one may
well be taken in its place.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from coevolve.core.rollout import Rollout
from coevolve.core.seeds import derive
from coevolve.domains.knobs import Knobs
from coevolve.evaluation.statistics import Interval, Rate, wilson
from coevolve.evidence.cells import Cell, cells_of, merged
from coevolve.harness.expression import Numbers
from coevolve.harness.rules import BacktestRule
from coevolve.policies.base import tokens

INCUMBENT = "incumbent"
"""The candidate whose knobs are in force."""
RESAMPLES = 2_000
SOLVED = 0.9


class Candidate(NamedTuple):
    """Knobs that may be used next."""

    name: str
    """Who proposed them; `incumbent` for those in force."""
    knobs: Knobs
    words: str = ""
    """What their engineer said of them."""


class Probe(NamedTuple):
    """What was measured of a candidate."""

    candidate: Candidate
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

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.candidate.name,
            "words": self.candidate.words,
            "knobs": dict(self.candidate.knobs),
            "alive": self.alive.as_json(),
            "signal": self.signal.mean,
            "signal_interval": self.signal[1:],
            "better": self.better,
            "forgotten": self.forgotten.value,
            "forgotten_interval": [self.forgotten.low, self.forgotten.high],
            "tokens": self.tokens.mean,
            "tokens_interval": self.tokens[1:],
        }


class Choice(NamedTuple):
    """Which candidate was taken, and why."""

    chosen: Candidate
    words: str
    probes: list[Probe]

    def as_json(self) -> dict[str, Any]:
        return {
            "chosen": self.chosen.name,
            "knobs": dict(self.chosen.knobs),
            "explanation": self.chosen.words,
            "words": self.words,
            "probes": [probe.as_json() for probe in self.probes],
        }


Answer = Callable[[Knobs], list[Rollout]]
"""Fresh tasks from knobs, each answered several times by the current checkpoint."""


def backtest(
    incumbent: Candidate,
    challengers: Sequence[Candidate],
    answer: Answer,
    rule: BacktestRule,
    seed: int,
) -> Choice:
    """Probe everything and choose."""
    if not rule.on:
        chosen = challengers[0] if challengers else incumbent
        return Choice(chosen, f"{chosen.name} taken unprobed, the backtest is off", [])
    base = answer(incumbent.knobs)
    probes = [measure(incumbent, base, base, seed)]
    probes += [measure(one, answer(one.knobs), base, seed) for one in challengers]
    fit = [
        probe
        for probe in probes[1:]
        if probe.better >= rule.confidence and probe.forgotten.value <= rule.most_forgotten
    ]
    best = max(fit, key=lambda probe: probe.signal.mean, default=probes[0])
    return Choice(best.candidate, explain(best, probes, rule), probes)


def measure(
    candidate: Candidate, rollouts: Sequence[Rollout], base: Sequence[Rollout], seed: int
) -> Probe:
    """The numbers of one candidate beside the incumbent's rollouts."""
    rng = np.random.default_rng(derive(seed, "backtest", candidate.name))
    signal, sizes = by_group(rollouts, reward, np.var), by_group(rollouts, size, np.mean)
    drawn, against = resampled(signal, rng), resampled(by_group(base, reward, np.var), rng)
    cells = cells_of(rollouts)
    groups = sum(cell.groups for cell in cells)
    return Probe(
        candidate,
        wilson(groups - sum(cell.dead for cell in cells), groups),
        interval(signal, drawn),
        0.5 if candidate.name == INCUMBENT else float((drawn > against).mean()),
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


def explain(best: Probe, probes: Sequence[Probe], rule: BacktestRule) -> str:
    """The decision in words."""
    lines, named = [], names(probes)
    for name, probe in zip(named, probes, strict=True):
        line = f"{name}: {probe.alive.value:.0%} of {probe.alive.n} groups carry "
        line += "signal, {:.4f} [{:.4f}, {:.4f}] of it".format(*probe.signal)
        if probe is not probes[0]:
            line += f", more than the incumbent with chance {probe.better:.0%}"
        if probe.forgotten.successes:
            line += f", forgets {probe.forgotten.value:.0%} of what is solved"
        lines.append(f"{line}, at {probe.tokens.mean:.0f} tokens a rollout")
    if len(probes) == 1:
        why = "there are no other knobs to try: the incumbent stays"
    elif best is probes[0] and any(probe.better >= rule.confidence for probe in probes[1:]):
        why = "what carries more signal leaves out too much of what is solved: the incumbent stays"
    elif best is probes[0]:
        why = f"no proposal is better with {rule.confidence:.0%} confidence: the incumbent stays"
    else:
        why = f"{named[probes.index(best)]} is taken"
    return f"{why}. " + "; ".join(lines)


def names(probes: Sequence[Probe]) -> list[str]:
    """Who proposed what was probed, numbered where somebody proposed several."""
    every = [probe.candidate.name for probe in probes]
    return [
        f"{name} #{every[: place + 1].count(name)}" if every.count(name) > 1 else name
        for place, name in enumerate(every)
    ]


def reward(rollout: Rollout) -> float:
    return rollout.outcome.reward


def size(rollout: Rollout) -> float:
    """Tokens, prompt and answer."""
    return tokens([rollout])


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
