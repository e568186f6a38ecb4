"""The null test: how often the gate keeps a patch that does nothing, and finds one that helps.

By answers: a checkpoint answers gate tasks many times. Every trial deals these answers out anew, as
a parent and a child: whatever sets them apart is the chance of evaluation. For a planted gain,
failed answers of the child become valid at random, as many as the gain needs.

By trainings: the same harness is trained with many seeds. Every trial takes one of them for the
parent, one for the child and others for twins: whatever sets them apart is the chance of training.
"""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coevolve.core.rollout import Rollout
from coevolve.core.seeds import derive
from coevolve.engines.registry import get_engine
from coevolve.evaluation.clusters import cautious
from coevolve.evaluation.gate import Rules, Side, better, change_of
from coevolve.evaluation.spread import spread_of
from coevolve.evaluation.statistics import Rate, wilson
from coevolve.harness.plan import Plan
from coevolve.harness.rules import GateRule
from coevolve.loop.run import decided, first_harness
from coevolve.loop.train import Done, Job, do, one_by_one
from coevolve.store.gauge import gauge_of
from coevolve.store.jobs import Work, result_of
from coevolve.store.paths import Paths

LEVEL = 0.025
"""Of false keeps: a version is kept only if a one-sided 97.5 % interval lies above no change."""


class Nulls(NamedTuple):
    """What the gate did."""

    false_keeps: Rate
    found: Rate
    """Planted gains that were kept."""
    gain: float
    """That was planted."""
    rate: float
    """Of valid answers before anything is planted."""
    tasks: int
    samples: int
    trainings: int = 0
    """How many the trials were dealt from; 0: answers of one checkpoint."""
    spread: float = 0.0
    """Mean spread between trainings that trials took into account."""

    def as_json(self) -> dict[str, Any]:
        return {
            **self._asdict(),
            "false_keeps": self.false_keeps.as_json(),
            "found": self.found.as_json(),
            "level": LEVEL,
        }


def null_answers(
    answers: Sequence[Sequence[Rollout]],
    samples: int,
    trials: int,
    gain: float,
    rule: GateRule,
    seed: int,
) -> Nulls:
    """Run no-op patches, and as many planted gains, through the gate.

    `answers` are those to one task each, at least twice as many as `samples`.
    """
    rate = valid_rate([one for task in answers for one in task])
    kept = found = 0
    for trial in range(trials):
        rng = np.random.default_rng(derive(seed, "null", trial))
        parent, child = dealt(answers, samples, 2, rng)
        gained = planted(child, gain / max(1 - rate, 1e-9), rng)
        rules = Rules(rule, seed=derive(seed, trial))
        kept += better(Side(parent), Side(child), rules).kept
        found += better(Side(parent), Side(gained), rules).kept
    return Nulls(wilson(kept, trials), wilson(found, trials), gain, rate, len(answers), samples)


def null_trainings(
    gates: Sequence[Sequence[Rollout]], trials: int, gain: float, rule: GateRule, seed: int
) -> Nulls:
    """The same with trainings of one harness, each by its gate rollouts; at least as many as a
    trial takes. Intervals count trainings, since trials share them."""
    every = [one for gate in gates for one in gate]
    rate, spreads = valid_rate(every), list[float]()
    kept = found = 0
    for trial in range(trials):
        rng = np.random.default_rng(derive(seed, "trainings", trial))
        parent, child, *twins = (
            gates[pick] for pick in rng.permutation(len(gates))[: 2 + rule.twins]
        )
        pairs = combinations((parent, *twins), 2)
        spread = spread_of([change_of(one, other, seed) for one, other in pairs])
        spreads.append(spread.value)
        gained = planted(child, gain / max(1 - rate, 1e-9), rng)
        rules = Rules(rule, spread=spread, seed=derive(seed, trial))
        kept += better(Side(parent), Side(child), rules).kept
        found += better(Side(parent), Side(gained), rules).kept
    tasks = len({one.task_id for one in every})
    return Nulls(
        cautious(kept, trials, len(gates)), cautious(found, trials, len(gates)), gain, rate, tasks,
        len(gates[0]) // tasks, len(gates), float(np.mean(spreads)),
    )  # fmt: skip


def valid_rate(rollouts: Sequence[Rollout]) -> float:
    return float(np.mean([one.outcome.valid for one in rollouts]))


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


def gates_of(plan: Plan, count: int, folder: Path, work: Work | None) -> list[list[Rollout]]:
    """The gate rollouts of the first version of a plan, trained with many seeds; what lies in the
    folder is not trained again."""
    plan = decided(plan)
    gauge = gauge_of(plan, Paths(folder))
    harness = first_harness(plan, gauge)
    jobs = {
        Paths(folder).twin(number): Job(
            number=0, plan=plan, harness=harness, policy=plan.policy,
            seed=derive(plan.seed, "version", number),
        )
        for number in range(count)
    }  # fmt: skip
    do(work or one_by_one(get_engine(plan.engine), gauge, None), jobs)
    found = []
    for place in jobs:
        done = result_of(place, Done)
        assert done
        found.append(gauge.measure(done.train.result.policy, gauge.gate, place / "gate"))
    return found
