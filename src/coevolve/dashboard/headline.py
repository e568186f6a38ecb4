"""What a page about a run opens with."""

from typing import NamedTuple

from coevolve.dashboard.answers import Answers, answers_of
from coevolve.dashboard.result import Standing, node_at, rate_of
from coevolve.domains.knobs import KnobSpace
from coevolve.evaluation.statistics import Rate
from coevolve.harness.budget import Spent
from coevolve.harness.plan import Plan
from coevolve.store.lineage import Lineage


class Headline(NamedTuple):
    """What a reader wants to know first."""

    answers: Answers
    """Whether it learned, and whether engineers helped."""
    base: Rate | None
    """Of the first policy, on the gate tasks."""
    final: Rate | None
    """Of the version that is told."""
    standing: Standing
    policy: str
    """What the run ends with, as it stands."""
    judged: int
    kept: int
    controls: int
    """Kept as well; they change nothing."""
    planned: int | None
    spent: dict[str, tuple[float, float | None]]
    """Used and allowed, by kind of expense."""


def headline_of(
    lineage: Lineage, plan: Plan | None, total: Spent, space: KnobSpace | None = None
) -> Headline:
    """The result so far; `plan` is None where it is lost and the lineage stands on defaults."""
    answers = answers_of(lineage, space)
    standing = answers.learned.standing
    told_of = node_at(lineage, standing.told)
    limits = plan.budget.limits() if plan else {}
    judged = [one for one in lineage.versions if one.verdict and not one.control]
    ends_with = node_at(lineage, standing.version)
    return Headline(
        answers,
        rate_of(lineage.base, lineage.plan),
        rate_of(told_of.gate.scores if told_of and told_of.gate else None, lineage.plan),
        standing,
        ends_with.policy if ends_with and ends_with.train else lineage.plan.policy,
        len(judged), sum(one.valid for one in judged),
        sum(one.control and one.valid for one in lineage.versions), plan.versions if plan else None,
        {name: (used, limits.get(name)) for name, used in total if used or name in limits},
    )  # fmt: skip
