"""Where a run stands: the version that it would end with beside the policy that it began with.

Invariant: every page that tells the result of a run tells this one, as the gate recorded it.
"""

from typing import NamedTuple

from coevolve.dashboard.numbers import points
from coevolve.evaluation.clusters import cautious
from coevolve.evaluation.difference import Difference, shift
from coevolve.evaluation.statistics import Rate
from coevolve.harness.plan import Plan
from coevolve.store.lineage import Lineage, Node
from coevolve.store.phases import Scores


class Standing(NamedTuple):
    """The best version beside the first policy."""

    version: int | None
    """What the run would end with; None: the first policy."""
    told: int | None
    """The version whose change is told: that one, or else the strongest that is valid."""
    change: Difference | None
    """Of the objective on gate tasks, from the first policy, paired."""
    words: str
    """Why there is no change to tell."""
    metric: str = "valid"
    """The objective."""

    @property
    def line(self) -> str:
        """In one line."""
        if self.change is None:
            return self.words
        better = "" if self.version is not None else ", not better than the first policy"
        return f"version {self.told}: {self.change.told(self.metric)}{better}"


def standing_of(lineage: Lineage) -> Standing:
    """The result of a run so far."""
    best = lineage.best
    if best is None:
        return Standing(None, None, None, "no evidence")
    strongest = lineage.strongest
    node = node_at(lineage, best.version) or (strongest[0] if strongest else None)
    if node is None or node.gate is None:
        return Standing(best.version, None, None, "no version was kept")
    return Standing(
        best.version, node.number, node.gate.base.change, "", lineage.plan.objective.metric
    )


def node_at(lineage: Lineage, number: int | None) -> Node | None:
    """A version, if it is recorded."""
    return lineage.nodes[number] if number is not None and number < len(lineage.nodes) else None


def rate_of(scores: Scores | None, plan: Plan, metric: str = "valid") -> Rate | None:
    """The share of valid, or optimal, attempts: all attempts at a task are worth one."""
    if scores is None:
        return None
    return cautious(getattr(scores, metric), scores.n, max(1, scores.n // plan.target.samples))


def best_words(lineage: Lineage) -> str:
    """What a run would end with now, and why; empty before the first verdict."""
    return lineage.best.words if lineage.best else ""


def direction(
    what: str, before: str, after: str, change: Difference, metric: str
) -> tuple[str, str]:
    """Which way a metric went, and whether that is more than chance."""
    if change.same:
        return "unclear", f"No clear change: {what} stayed at {before} ({change.told()})."
    low, high = points(change.low, metric), points(change.high, metric)
    numbers = f"{shift(change.mean, metric)}, 95 % interval {low} to {high}, n {change.n}"
    if change.low > 0:
        return "yes", f"Yes: {what} rose from {before} to {after} ({numbers})."
    if change.high < 0:
        return "no", f"No: {what} fell from {before} to {after} ({numbers})."
    return "unclear", f"No clear change: {what} went from {before} to {after} ({numbers})."


def compared_with(lineage: Lineage, number: int | None) -> str:
    """What a version is judged against."""
    if number is None:
        return "the first policy"
    control = number < len(lineage.nodes) and lineage.versions[number].control
    return f"control {number}" if control else f"version {number}"
