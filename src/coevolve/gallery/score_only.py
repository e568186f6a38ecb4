"""The loop beside ours: it keeps whatever raised its score, and asks nothing else."""

from collections.abc import Sequence
from statistics import mean
from typing import Any, NamedTuple

import numpy as np

from coevolve.backtests.replay import read_stored
from coevolve.core.rollout import Rollout
from coevolve.evaluation.difference import by_task, means_by_task, paired
from coevolve.evaluation.shape import shaped
from coevolve.gallery.scenario import Score
from coevolve.harness.expression import Numbers
from coevolve.harness.harness import Harness
from coevolve.loop.run import Run

WORDS: dict[Score, str] = {
    "valid": "valid rate on gate tasks",
    "reward": "mean reward on gate tasks, by each version's own reward",
    "learned": "mean reward of the rollouts that training learned from",
}


class Scored(NamedTuple):
    """A score before and after."""

    measure: Score
    before: float
    after: float
    low: float
    high: float
    """Of the change, 95 %."""
    n: int

    @property
    def kept(self) -> bool:
        """All that the loop asks."""
        return self.after > self.before

    @property
    def words(self) -> str:
        return (
            f"{self.measure} {self.before:.3f} → {self.after:.3f} "
            f"[{self.low:+.3f}, {self.high:+.3f}], n {self.n:,}"
        )

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "words": self.words, "looks_at": WORDS[self.measure]}


def scored(run: Run, measure: Score, harnesses: tuple[Harness, Harness]) -> Scored:
    """What versions 0 and 1 of a run score."""
    if measure == "learned":
        before, after = (learned(run, number, one) for number, one in enumerate(harnesses))
        noise = 1.96 * float(np.sqrt(before.var() / len(before) + after.var() / len(after)))
        change = float(after.mean() - before.mean())
        return Scored(
            measure, float(before.mean()), float(after.mean()), change - noise, change + noise,
            min(len(before), len(after)),
        )  # fmt: skip
    sides = [
        score_by_task(run, run.gate(number), one if measure == "reward" else None)
        for number, one in enumerate(harnesses)
    ]
    found = paired(sides[0], sides[1], run.plan.seed)
    return Scored(measure, mean(sides[0]), mean(sides[1]), found.low, found.high, found.n)


def score_by_task(run: Run, rollouts: Sequence[Rollout], harness: Harness | None) -> list[float]:
    """The score of each task; without a harness, whether answers are valid."""
    if harness is None:
        return by_task(rollouts)
    rewards = shaped(harness.reward, rollouts, run.gauge.domain.components).values
    return means_by_task(rollouts, rewards.tolist())


def learned(run: Run, number: int, harness: Harness) -> Numbers:
    """The rewards of the rollouts that a version's training learned from."""
    stored = read_stored(run.ledger.folder, number, run.gauge.domain.components)
    rewards = stored.rewards(harness.reward)
    return rewards[stored.weights(harness.filters, rewards) > 0]
