"""The backtest by probing: what a proposal would be worth, before anything is trained on it.

The current checkpoint answers a few fresh train tasks of every candidate, several times each. The
incumbent is always a candidate, and wins unless another is better beyond doubt.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from coevolve.core.rollout import Rollout
from coevolve.core.seeds import derive
from coevolve.domains.knobs import Knobs
from coevolve.evaluation.statistics import Rate, wilson
from coevolve.evidence.cells import Cell, cells_of, merged
from coevolve.harness.rules import BacktestRule

RESAMPLES = 2_000
SOLVED = 0.9


class Candidate(NamedTuple):
    """Knobs that may be used next."""

    name: str
    """Who proposed them; `incumbent` for those in force."""
    knobs: Knobs
    words: str = ""


class Probe(NamedTuple):
    """What was measured of a candidate."""

    candidate: Candidate
    alive: Rate
    """Share of groups with signal."""
    signal: float
    """Mean variance of rewards within a group: what GRPO can learn from."""
    low: float
    high: float
    better: float
    """Chance that its signal is above the incumbent's."""
    forgotten: float
    """Share of what the incumbent's tasks have solved that its own tasks leave out."""
    tokens: float
    """Mean tokens per rollout, prompt and answer: the cost."""

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.candidate.name,
            "words": self.candidate.words,
            "knobs": dict(self.candidate.knobs),
            "alive": self.alive.as_json(),
            "signal": self.signal,
            "signal_interval": [self.low, self.high],
            "better": self.better,
            "forgotten": self.forgotten,
            "tokens": self.tokens,
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
        if probe.better >= rule.confidence and probe.forgotten <= rule.most_forgotten
    ]
    best = max(fit, key=lambda probe: probe.signal, default=probes[0])
    return Choice(best.candidate, explain(best, probes, rule), probes)


def measure(
    candidate: Candidate, rollouts: Sequence[Rollout], base: Sequence[Rollout], seed: int
) -> Probe:
    """The numbers of one candidate beside the incumbent's rollouts."""
    own, other = _variances(rollouts), _variances(base)
    rng = np.random.default_rng(derive(seed, "backtest", candidate.name))
    drawn, against = _means(own, rng), _means(other, rng)
    low, high = np.quantile(drawn, (0.025, 0.975))
    cells = cells_of(rollouts)
    groups = sum(cell.groups for cell in cells)
    return Probe(
        candidate,
        wilson(groups - sum(cell.dead for cell in cells), groups),
        float(own.mean()),
        float(low),
        float(high),
        0.5 if candidate.name == "incumbent" else float((drawn > against).mean()),
        forgotten(cells, cells_of(base)),
        sum(one.prompt_tokens + one.completion_tokens for one in rollouts) / len(rollouts),
    )


def forgotten(cells: Sequence[Cell], base: Sequence[Cell]) -> float:
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
    return lost / solved if solved else 0.0


def explain(best: Probe, probes: Sequence[Probe], rule: BacktestRule) -> str:
    """The decision in words."""
    lines = []
    for probe in probes:
        line = f"{probe.candidate.name}: {probe.alive.value:.0%} of {probe.alive.n} groups carry "
        line += f"signal, {probe.signal:.4f} [{probe.low:.4f}, {probe.high:.4f}] of it"
        if probe is not probes[0]:
            line += f", more than the incumbent with chance {probe.better:.0%}"
        if probe.forgotten:
            line += f", forgets {probe.forgotten:.0%} of what is solved"
        lines.append(line)
    if best is probes[0]:
        why = f"no proposal is better with {rule.confidence:.0%} confidence: the incumbent stays"
    else:
        why = f"{best.candidate.name} is taken"
    return f"{why}. " + "; ".join(lines)


def _variances(rollouts: Sequence[Rollout]) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """The variance of rewards of each group."""
    groups: dict[str, list[float]] = {}
    for rollout in rollouts:
        groups.setdefault(rollout.group or rollout.task_id, []).append(rollout.outcome.reward)
    return np.array([np.var(rewards) for rewards in groups.values()], dtype=np.float64)


def _means(
    values: "np.ndarray[Any, np.dtype[np.float64]]", rng: np.random.Generator
) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Means of resampled groups."""
    picks = rng.integers(len(values), size=(RESAMPLES, len(values)))
    means: np.ndarray[Any, np.dtype[np.float64]] = values[picks].mean(axis=1)
    return means
