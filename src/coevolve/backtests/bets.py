"""Bets: what knobs are worth to the target, predicted before a version is trained on them.

    signal     how far the rewards of a task's answers lie apart, which is all that GRPO learns from
    need       the same, counted by how much the target lacks of such tasks
    gradient   how far learning from them moves the weights towards better answers to dev tasks
    replay     a short branch is trained, and the stored answers to dev tasks are weighed by how
               much likelier it holds them
    branch     a short branch is trained, and answers the dev tasks anew

`benchmarks/predictors.py` has what each of them is worth. Dev tasks are of the target; gate and
test tasks are never looked at. Invariant: number i of two bets is about the same task, or the same
draw, so that bets are compared in pairs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coevolve.backtests.signal import SMALLEST
from coevolve.core.errors import UserError
from coevolve.core.rollout import Rollout
from coevolve.core.task import Label
from coevolve.domains.knobs import Knobs, KnobSpace
from coevolve.evaluation.difference import means_by_task
from coevolve.evaluation.gate import SCORES
from coevolve.evaluation.statistics import Rate, wilson
from coevolve.harness.expression import Numbers
from coevolve.harness.harness import Harness
from coevolve.policies.base import Lazy, Policy
from coevolve.store.cells import Cell, cells_of, pooled

if TYPE_CHECKING:
    from coevolve.policies.models import Loaded

PARTS = 16
"""Into which the probes of knobs are cut, each with a gradient of its own."""
NEXT = 0.5
"""What tasks one step away are worth to a kind that fails, beside tasks of its own."""
OTHER = 0.1
"""What tasks are worth that are of another sort altogether: whose label is another word."""
Labels = Mapping[str, Label]
MOST = 20.0
"""Log-ratio beyond which an answer is not made likelier."""


class Bet(NamedTuple):
    """Of some knobs."""

    values: Numbers
    alive: Rate
    """Groups of answers to their tasks that carry any signal."""


@dataclass
class Bench:
    """What bets are made from: the parent's checkpoint, and ways to draw and train."""

    by: str
    metric: str
    temperature: float
    """That dev answers were drawn at."""
    space: KnobSpace
    parent: Policy
    answers: Callable[[], Sequence[Rollout]]
    """The parent's answers to dev tasks."""
    probe: Callable[[Knobs], Sequence[Rollout]]
    """Its answers to fresh tasks of knobs."""
    branch: Callable[[Harness], "Branch"]

    def bet(self, harness: Harness, rewarded: Callable[[Sequence[Rollout]], list[Rollout]]) -> Bet:
        """On the knobs of a harness; `rewarded` gives rollouts the rewards that it pays."""
        if self.by in ("replay", "branch"):
            grown = self.branch(harness)
            is_replay = self.by == "replay"
            values = self.replayed(grown.policy) if is_replay else self.scored(grown.answers())
            return Bet(values, grown.alive)
        drawn = rewarded(self.probe(self.space.parse(harness.knobs)))
        live = alive(cells_of(drawn))
        if self.by == "gradient":
            return Bet(self.agreement(drawn), live)
        spread = by_group(drawn, lambda one: one.outcome.reward, np.std)
        if self.by == "need":
            labels = {one.group or one.task_id: one.bucket for one in drawn}
            return Bet(needs(list(labels.values()), spread, cells_of(self.dev)), live)
        return Bet(spread**2, live)

    @cached_property
    def dev(self) -> Sequence[Rollout]:
        return self.answers()

    @cached_property
    def likely(self) -> Numbers:
        """How likely the parent holds its answers to dev tasks."""
        from coevolve.policies.likelihood import log_likelihoods

        return log_likelihoods(loaded(self.parent), self.dev, self.temperature)

    @cached_property
    def aim(self) -> Any:
        """Which way the weights go for better answers to dev tasks."""
        from coevolve.policies.likelihood import gradient

        return gradient(loaded(self.parent), self.dev, centred(self.dev, self.scores(self.dev)))

    def scores(self, rollouts: Sequence[Rollout]) -> Numbers:
        return np.array([SCORES[self.metric](one) for one in rollouts])

    def scored(self, answers: Sequence[Rollout]) -> Numbers:
        """By dev task."""
        return np.array(means_by_task(answers, list(self.scores(answers))))

    def replayed(self, policy: Policy) -> Numbers:
        """By dev task: the mean of its stored answers, weighed by how much likelier they became."""
        from coevolve.policies.likelihood import log_likelihoods

        after = log_likelihoods(loaded(policy), self.dev, self.temperature)
        weights = np.exp(np.clip(after - self.likely, -MOST, MOST))
        earned = means_by_task(self.dev, list(weights * self.scores(self.dev)))
        found: Numbers = np.array(earned) / np.array(means_by_task(self.dev, list(weights)))
        return found

    def agreement(self, drawn: Sequence[Rollout]) -> Numbers:
        """By part of the probes: how far its gradient goes along that of the metric on dev."""
        from coevolve.policies.likelihood import gradient

        rewards = np.array([one.outcome.reward for one in drawn])
        weights, model = centred(drawn, rewards, scaled=True), loaded(self.parent)
        parts: list[Any] = [
            gradient(model, [drawn[at] for at in part], weights[part])
            for part in np.array_split(np.arange(len(drawn)), min(PARTS, len(drawn)))
        ]
        size = float(sum(parts).norm() * self.aim.norm()) / len(parts)
        return np.array([float(part @ self.aim) for part in parts]) / (size or 1.0)


class Branch(NamedTuple):
    """A policy that was trained a little under a harness."""

    policy: Policy
    alive: Rate
    answers: Callable[[], Sequence[Rollout]]
    """Its answers to dev tasks."""


def alive(cells: Iterable[Cell]) -> Rate:
    """Groups whose answers earn different rewards."""
    whole = pooled(cells)
    return wilson(whole.groups - whole.dead, whole.groups)


def by_group(
    rollouts: Sequence[Rollout], what: Callable[[Rollout], float], of: Callable[[list[float]], Any]
) -> Numbers:
    """One number for each group, from something of its rollouts."""
    groups: dict[str, list[float]] = {}
    for rollout in rollouts:
        groups.setdefault(rollout.group or rollout.task_id, []).append(what(rollout))
    return np.array([of(values) for values in groups.values()], dtype=np.float64)


def loaded(policy: Policy) -> "Loaded":
    """The model behind a policy."""
    from coevolve.policies.local import LocalPolicy

    policy = policy.policy if isinstance(policy, Lazy) else policy
    if not isinstance(policy, LocalPolicy):
        raise UserError(
            f"'{policy.name}' does not tell how likely it holds an answer; set backtest.by to "
            "signal, need or branch"
        )
    return policy.loaded


def centred(rollouts: Sequence[Rollout], values: Numbers, scaled: bool = False) -> Numbers:
    """Beyond the mean of the answers to the same task, in their spreads if `scaled`."""
    groups: dict[str, list[int]] = {}
    for place, one in enumerate(rollouts):
        groups.setdefault(one.group or one.task_id, []).append(place)
    found = np.zeros(len(rollouts))
    for places in groups.values():
        own = values[places]
        spread = own.std(ddof=1) + SMALLEST if scaled and len(own) > 1 else 1.0
        found[places] = (own - own.mean()) / spread
    return found


def needs(labels: Sequence[Labels], spread: Numbers, dev: Sequence[Cell]) -> Numbers:
    """By group, of whose task the labels are: what it is worth to the kinds of tasks that the
    target lacks. To each kind all groups together are worth the root of what there is to learn from
    its like, since more of the same teaches ever less; the mean over groups is the sum of that."""
    whole = sum(cell.n for cell in dev) or 1
    lack = np.array([(cell.n - cell.valid) / whole for cell in dev])
    known = {
        kind: [likeness(dict(kind), cell.labels) for cell in dev]
        for kind in {tuple(own.items()) for own in labels}
    }
    offered = spread[:, None] * np.array([known[tuple(own.items())] for own in labels])
    roots = np.sqrt(offered.mean(0))
    found: Numbers = ((roots + offered / np.maximum(roots, SMALLEST)) / 2) @ lack
    return found


def likeness(one: Labels, other: Labels) -> float:
    """1 for the same labels; less with each step between numbers, and with each other word."""
    found = 1.0
    for name, here in one.items():
        there = other.get(name, here)
        if isinstance(here, int | float) and isinstance(there, int | float):
            found *= NEXT ** abs(here - there)
        elif here != there:
            found *= OTHER
    return found
