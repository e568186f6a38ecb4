"""What a person asks of a run first: did it learn, and did the engineers help?

Pure functions of the lineage.
"""

from typing import NamedTuple

from coevolve.dashboard.effect import Helped, helped_by
from coevolve.dashboard.numbers import percent
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
from coevolve.evaluation.falls import Fall, falls
from coevolve.evaluation.statistics import Rate
from coevolve.harness.plan import RATES
from coevolve.store.layout import BASE
from coevolve.store.lineage import Lineage
from coevolve.store.phases import Share

NAMES = {"valid": "valid rate", "optimal": "optimal rate", "reward": "mean reward"}
"""Of metrics."""
BY_GATE = (
    "Test tasks decided nothing: this is the policy that the run began with against the last one. "
    "By the gate:"
)


class MetricChange(NamedTuple):
    """A rate of the version that is told beside the first policy's, on gate tasks."""

    metric: str
    before: Rate | None
    after: Rate | None
    change: Difference | None
    """Paired; None where it was not recorded."""


class Tested(NamedTuple):
    """The first policy beside the last one on the test split, which decided nothing."""

    version: int
    """Of the last one; -1 if that is the first."""

    first: Rate
    """Of valid answers."""
    last: Rate
    change: Difference
    tasks: int
    metrics: tuple[MetricChange, ...]
    """Valid and optimal answers."""
    falls: tuple[Fall, ...]
    """What became worse."""


class Learned(NamedTuple):
    """Did it learn: the best version beside the policy that the run began with, by the test split
    once that is open, and else by the gate."""

    answer: str
    """yes, no, unclear or unknown."""
    sentence: str
    by_gate: str
    """What the gate said, where the test split has the last word; else empty."""
    standing: Standing
    metrics: tuple[MetricChange, ...]
    """Valid and optimal, whichever of them decides."""
    falls: tuple[Fall, ...]
    """What became worse."""
    remark: str
    """Where the run ends with a control, or not with its highest version; else empty."""
    test: Tested | None
    """None until the test split is opened."""


class Answers(NamedTuple):
    learned: Learned
    helped: Helped

    @property
    def lines(self) -> list[str]:
        """For a terminal."""
        found = [f"Did it learn? {self.learned.sentence}"]
        found += [f"  {self.learned.by_gate}"] if self.learned.by_gate else []
        found += [f"  Beware: {fall.words}." for fall in self.learned.falls]
        found += [f"  {self.learned.remark}"] if self.learned.remark else []
        return [*found, f"Did the engineers help? {self.helped.sentence}"]


def answers_of(lineage: Lineage, space: KnobSpace | None) -> Answers:
    """Both answers; `space` puts patches of knobs into words."""
    return Answers(learned_by(lineage), helped_by(lineage, space))


def learned_by(lineage: Lineage) -> Learned:
    """Whether the run has made its policy better."""
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
    fell, by_gate, test = lineage.falls(told) if told else (), "", tested_of(lineage)
    if test and test.version == standing.version:  # not where the run went on after it
        fell, by_gate = test.falls, f"{BY_GATE} {sentence}"
        rates = percent(test.first.value), percent(test.last.value)
        answer, sentence = direction("on test tasks the valid rate", *rates, test.change, "valid")
    remark = highest(lineage, standing)
    return Learned(answer, sentence, by_gate, standing, metrics, fell, remark, test)


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
    """Where another version scored higher than the one that the run ends with."""
    found, metric = lineage.strongest, lineage.plan.objective.metric
    told = node_at(lineage, standing.version)
    if told is None:
        return ""
    if told.version.control:
        return (
            f"As it stands, it ends with version {told.number}, a control: it trained on "
            "without a change of its own."
        )
    newest = max((one.number for one in found), default=told.number)
    if lineage.plan.accept == "no worse" and newest > told.number and found[0] is told:
        return (
            f"As it stands, it ends with version {told.number}: it is ahead of version "
            f"{newest}, which was kept later, by more than the best of so many would be by luck."
        )
    if not found or lineage.score(found[0]) <= lineage.score(told):
        return ""
    return (
        f"As it stands, it ends with version {told.number}, which was kept last; version "
        f"{found[0].number} had a higher {NAMES[metric]}: "
        f"{stands(lineage.score(found[0]), metric)}."
    )


def tested_of(lineage: Lineage) -> Tested | None:
    """What `coevolve final` recorded."""
    final, plan = lineage.final, lineage.plan
    if final is None:
        return None
    trained = (node for node in lineage.nodes if node.train and node.policy == final.last.policy)
    version = next((node.number for node in trained), BASE)
    first, last = final.first.rates, final.last.rates
    metrics = tuple(
        MetricChange(name, as_rate(first[name]), as_rate(last[name]), change)
        for name, change in final.change.items()
    )
    before, after = ({name: one.rate for name, one in side.items()} for side in (first, last))
    fell = falls(before, after, final.change, plan.objective.protect, plan.gate.margin)
    valid = final.change["valid"]
    rates = as_rate(first["valid"]), as_rate(last["valid"])
    return Tested(version, *rates, valid, final.tasks, metrics, fell)


def as_rate(one: Share) -> Rate:
    return Rate(round(one.rate * one.n), one.n, one.low, one.high)
