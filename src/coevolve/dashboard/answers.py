"""What a person asks of a run first: did it learn, and did the engineers help?

Pure functions of the lineage.
"""

from typing import NamedTuple

from coevolve.dashboard.effect import Helped, helped_by
from coevolve.dashboard.result import (
    Standing,
    best_words,
    direction,
    node_at,
    rate_of,
    standing_of,
)
from coevolve.domains.knobs import KnobSpace
from coevolve.evaluation.difference import Difference, stands
from coevolve.evaluation.falls import Fall
from coevolve.evaluation.statistics import Rate
from coevolve.harness.plan import RATES
from coevolve.store.lineage import Lineage

NAMES = {"valid": "valid rate", "optimal": "optimal rate", "reward": "mean reward"}
"""Of metrics."""


class MetricChange(NamedTuple):
    """A rate of the version that is told beside the first policy's, on gate tasks."""

    metric: str
    before: Rate | None
    after: Rate | None
    change: Difference | None
    """Paired; None where it was not recorded."""


class Learned(NamedTuple):
    """Did it learn: the best version beside the policy that the run began with."""

    answer: str
    """yes, no, unclear or unknown."""
    sentence: str
    standing: Standing
    metrics: tuple[MetricChange, ...]
    """Valid and optimal, whichever of them decides."""
    falls: tuple[Fall, ...]
    """What became worse."""
    remark: str
    """Where the run ends with a control, or not with its highest version; else empty."""


class Answers(NamedTuple):
    learned: Learned
    helped: Helped

    @property
    def lines(self) -> list[str]:
        """For a terminal."""
        found = [f"Did it learn? {self.learned.sentence}"]
        found += [f"  Beware: {fall.words}." for fall in self.learned.falls]
        found += [f"  {self.learned.remark}"] if self.learned.remark else []
        return [*found, f"Did the engineers help? {self.helped.sentence}"]


def answers_of(lineage: Lineage, space: KnobSpace | None) -> Answers:
    """Both answers; `space` puts patches of knobs into words."""
    return Answers(learned_by(lineage), helped_by(lineage, space))


def learned_by(lineage: Lineage) -> Learned:
    """Whether the run has made its policy better, by the gate."""
    standing = standing_of(lineage)
    told = node_at(lineage, standing.told)
    answer, sentence = gate_answer(lineage, standing)
    after = told.gate.scores if told and told.gate else None
    changes = dict[str, Difference](told.gate.base.metrics) if told and told.gate else {}
    if standing.change:  # which allows for the choice among all versions
        changes[lineage.plan.objective.metric] = standing.change
    metrics = tuple(
        MetricChange(
            one, rate_of(lineage.base, lineage.plan, one), rate_of(after, lineage.plan, one),
            changes.get(one),
        )
        for one in RATES
    )  # fmt: skip
    falls = lineage.falls(told) if told else ()
    return Learned(answer, sentence, standing, metrics, falls, highest(lineage, standing))


def gate_answer(lineage: Lineage, standing: Standing) -> tuple[str, str]:
    """The answer in one word and in one sentence."""
    best, metric = lineage.best, lineage.plan.objective.metric
    if best is None:
        return "unknown", "Not known yet: no version has been judged on held-out tasks."
    if standing.version is None:
        return "no", f"No: {best_words(lineage)}; the policy that it began with stands."
    node = node_at(lineage, standing.version)
    if standing.change is None or lineage.base is None or node is None or node.gate is None:
        return "unknown", "Not known: what the gate measured cannot be read."
    values = (lineage.base.mean(metric), node.gate.scores.mean(metric))
    before, after = (stands(one, metric) for one in values)
    return direction(
        f"on held-out tasks (the gate) the {NAMES[metric]}", before, after, standing.change, metric
    )


def highest(lineage: Lineage, standing: Standing) -> str:
    """Where another version scored higher than the one that the run would end with."""
    found, metric = lineage.strongest, lineage.plan.objective.metric
    told = node_at(lineage, standing.version)
    if told is None:
        return ""
    if told.version.control:
        return (
            f"It would end with version {told.number}, a control: it trained on without a change "
            "of its own."
        )
    newest = max((one.number for one in found), default=told.number)
    if lineage.plan.accept == "no worse" and newest > told.number and found[0] is told:
        return (
            f"It would end with version {told.number}: it is ahead of version {newest}, which was "
            "kept later, by more than the best of so many would be by luck."
        )
    if not found or lineage.score(found[0]) <= lineage.score(told):
        return ""
    return (
        f"It would end with version {told.number}, which was kept last; version "
        f"{found[0].number} had a higher {NAMES[metric]}: "
        f"{stands(lineage.score(found[0]), metric)}."
    )
