"""What a page about a run opens with: the answers, by the test split once that is open."""

from typing import NamedTuple

from coevolve.dashboard.answers import Answers, MetricChange, answers_of
from coevolve.dashboard.numbers import percent
from coevolve.dashboard.result import Standing, direction, node_at, rate_of
from coevolve.domains.knobs import KnobSpace
from coevolve.evaluation.difference import Difference
from coevolve.evaluation.falls import Fall, falls
from coevolve.evaluation.statistics import Rate
from coevolve.harness.budget import Spent
from coevolve.harness.plan import Plan
from coevolve.store.layout import BASE
from coevolve.store.lineage import Lineage
from coevolve.store.phases import Share


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


class Headline(NamedTuple):
    """What a reader wants to know first."""

    answer: str
    """yes, no, unclear or unknown."""
    sentence: str
    by_gate: str
    """What the gate said, where the test split has the last word; empty before."""
    answers: Answers
    """By the gate: whether it learned, and whether engineers helped."""
    base: Rate | None
    """Of the first policy, on the gate tasks."""
    final: Rate | None
    """Of the version that is told."""
    standing: Standing
    policy: str
    """What the run would end with."""
    judged: int
    kept: int
    controls: int
    """Kept as well; they change nothing."""
    planned: int | None
    spent: dict[str, tuple[float, float | None]]
    """Used and allowed, by kind of expense."""
    test: Tested | None
    """None until the test split is opened."""


def headline_of(
    lineage: Lineage, plan: Plan | None, total: Spent, space: KnobSpace | None = None
) -> Headline:
    """The result so far; `plan` is None where it is lost and the lineage stands on defaults."""
    answers = answers_of(lineage, space)
    learned, standing = answers.learned, answers.learned.standing
    tested = tested_of(lineage)
    answer, sentence = learned.answer, learned.sentence
    by_gate = ""
    if tested and standing.version is not None:  # otherwise both are the first policy
        by_gate = sentence
        rates = percent(tested.first.value), percent(tested.last.value)
        answer, sentence = direction("on test tasks the valid rate", *rates, tested.change, "valid")
    told_of = node_at(lineage, standing.told)
    limits = plan.budget.limits() if plan else {}
    judged = [one for one in lineage.versions if one.verdict and not one.control]
    ends_with = node_at(lineage, standing.version)
    return Headline(
        answer, sentence, by_gate, answers,
        rate_of(lineage.base, lineage.plan),
        rate_of(told_of.gate.scores if told_of and told_of.gate else None, lineage.plan),
        standing,
        ends_with.policy if ends_with and ends_with.train else lineage.plan.policy,
        len(judged), sum(one.valid for one in judged),
        sum(one.control and one.valid for one in lineage.versions), plan.versions if plan else None,
        {name: (used, limits.get(name)) for name, used in total if used or name in limits},
        tested,
    )  # fmt: skip


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
