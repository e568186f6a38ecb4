"""The null test: how often the gate keeps a patch that does nothing, and finds one that helps.

A checkpoint answers gate tasks many times. Every trial deals these answers out anew, as a parent,
a child and repeated evaluations of the root: whatever sets them apart is chance. For a planted
gain, failed answers of the child become valid at random, as many as the gain needs.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from coevolve.core.rollout import Rollout
from coevolve.core.seeds import derive
from coevolve.evaluation.statistics import Rate, wilson
from coevolve.evolution.noise import noise_of
from coevolve.evolution.promotion import Evidence, promote
from coevolve.harness.rules import PromotionRule

LEVEL = 0.025
"""Of false keeps: a version is kept only if a one-sided 97.5 % interval lies above no change."""


class Nulls(NamedTuple):
    """What the gate did."""

    false_keeps: Rate
    found: Rate
    """Planted gains that were kept."""
    gain: float
    """That was planted."""
    floor: float
    """Mean noise floor."""
    rate: float
    """Of valid answers before anything is planted."""
    tasks: int
    samples: int

    def as_json(self) -> dict[str, Any]:
        return {
            **self._asdict(),
            "false_keeps": self.false_keeps.as_json(),
            "found": self.found.as_json(),
            "level": LEVEL,
        }


def needed(rule: PromotionRule, samples: int) -> int:
    """Answers to each task that a trial deals out."""
    return (2 + rule.repeats) * samples


def null_test(
    answers: Sequence[Sequence[Rollout]],
    samples: int,
    trials: int,
    gain: float,
    rule: PromotionRule,
    seed: int,
) -> Nulls:
    """Run no-op patches, and as many planted gains, through the gate.

    `answers` are those to one task each, at least `needed(rule, samples)` of them.
    """
    rate = float(np.mean([one.outcome.valid for task in answers for one in task]))
    kept = found = 0
    floors = []
    for trial in range(trials):
        rng = np.random.default_rng(derive(seed, "null", trial))
        parent, child, *repeats = dealt(answers, samples, 2 + rule.repeats, rng)
        floors.append(noise_of(parent, repeats, [], seed).floor)
        gained = planted(child, gain / max(1 - rate, 1e-9), rng)
        verdicts = [
            promote(
                Evidence(parent, {}), Evidence(one, {}), None, rule, floors[-1], derive(seed, trial)
            ).verdict
            for one in (child, gained)
        ]
        kept += verdicts[0] == "kept"
        found += verdicts[1] == "kept"
    return Nulls(
        wilson(kept, trials), wilson(found, trials), gain, float(np.mean(floors)), rate,
        len(answers), samples,
    )  # fmt: skip


def dealt(
    answers: Sequence[Sequence[Rollout]], samples: int, hands: int, rng: np.random.Generator
) -> list[list[Rollout]]:
    """Several evaluations, each with its own answers to every task."""
    found: list[list[Rollout]] = [[] for _ in range(hands)]
    for task in answers:
        drawn = rng.permutation(len(task))[: hands * samples]
        for place, pick in enumerate(drawn):
            hand, sample = divmod(place, samples)
            found[hand].append(task[pick].model_copy(update={"sample": sample}))
    return found


def planted(rollouts: Sequence[Rollout], share: float, rng: np.random.Generator) -> list[Rollout]:
    """The same rollouts with a share of the failures turned into successes."""
    better = []
    for one in rollouts:
        if not one.outcome.valid and rng.random() < share:
            outcome = one.outcome.model_copy(update={"valid": True, "failure": None})
            one = one.model_copy(update={"outcome": outcome})
        better.append(one)
    return better
