"""Did it learn: what a run would end with, beside the policy that it began with.

Invariant: every page that tells the result of a run tells this one, as the gate recorded it.
"""

from typing import NamedTuple

from coevolve.dashboard.numbers import change_words, in_points, percent
from coevolve.evaluation.clusters import cautious
from coevolve.evaluation.difference import Difference
from coevolve.evaluation.statistics import Rate
from coevolve.harness.budget import Spent
from coevolve.harness.plan import Plan
from coevolve.store.lineage import Lineage, Node
from coevolve.store.phases import Final, Scores

NAMES = {"valid": "valid rate", "optimal": "optimal rate", "reward": "mean reward"}
"""Of metrics."""


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

    @property
    def line(self) -> str:
        """In one line."""
        if self.change is None:
            return self.words
        better = "" if self.version is not None else ", not better than the first policy"
        return f"version {self.told}: {change_words(self.change)}{better}"


class Tested(NamedTuple):
    """The first policy beside the last one on the test split, which decided nothing."""

    first: Rate
    last: Rate
    change: Difference
    tasks: int


class Headline(NamedTuple):
    """What a reader wants to know first."""

    answer: str
    """yes, no, unclear or unknown."""
    sentence: str
    by_gate: str
    """What the gate said, where the test split has the last word; empty before."""
    engineers: str
    """Whether it is the engineers that helped, as far as the gate can tell."""
    base: Rate | None
    """Of the first policy, on the gate tasks."""
    final: Rate | None
    """Of the version that is told."""
    standing: Standing
    policy: str
    """What the run would end with."""
    judged: int
    kept: int
    planned: int | None
    spent: dict[str, tuple[float, float | None]]
    """Used and allowed, by kind of expense."""
    test: Tested | None
    """None until the test split is opened."""


def headline_of(lineage: Lineage, plan: Plan | None, total: Spent) -> Headline:
    """The result so far; `plan` is None where it is lost and the lineage stands on defaults."""
    standing = standing_of(lineage)
    tested = tested_of(lineage.final)
    answer, sentence = gate_answer(lineage, standing)
    by_gate = ""
    if tested and standing.version is not None:  # otherwise both are the first policy
        by_gate = sentence
        rates = percent(tested.first.value), percent(tested.last.value)
        answer, sentence = direction("on the test split, the valid rate", *rates, tested.change)
    told_of = node_at(lineage, standing.told)
    limits = plan.budget.limits() if plan else {}
    judged = [one for one in lineage.versions if one.verdict and not one.control]
    ends_with = node_at(lineage, standing.version)
    return Headline(
        answer, sentence, by_gate, helped(lineage),
        rate_of(lineage.base, lineage.plan),
        rate_of(told_of.gate.scores if told_of and told_of.gate else None, lineage.plan),
        standing,
        ends_with.policy if ends_with and ends_with.train else lineage.plan.policy,
        len(judged), sum(one.valid for one in judged), plan.versions if plan else None,
        {name: (used, limits.get(name)) for name, used in total if used or name in limits},
        tested,
    )  # fmt: skip


def standing_of(lineage: Lineage) -> Standing:
    """The result of a run so far."""
    best = lineage.best
    if best is None:
        return Standing(None, None, None, "no evidence")
    strongest = lineage.strongest
    node = node_at(lineage, best.version) or (strongest[0] if strongest else None)
    if node is None or node.gate is None:
        return Standing(best.version, None, None, "no version was kept")
    return Standing(best.version, node.number, node.gate.base.change, "")


def node_at(lineage: Lineage, number: int | None) -> Node | None:
    """A version, if it is recorded."""
    return lineage.nodes[number] if number is not None and number < len(lineage.nodes) else None


def rate_of(scores: Scores | None, plan: Plan) -> Rate | None:
    """The share of valid attempts: all attempts at a task are worth one."""
    if scores is None:
        return None
    return cautious(scores.valid, scores.n, max(1, scores.n // plan.target.samples))


def gate_answer(lineage: Lineage, standing: Standing) -> tuple[str, str]:
    """The answer in one word and in one sentence."""
    best, metric = lineage.best, lineage.plan.objective.metric
    if best is None:
        return "unknown", "Not known yet: no version has been judged by the gate."
    if standing.version is None:
        return "no", f"No: {best_words(lineage)}; the policy that it began with stands."
    node = node_at(lineage, standing.version)
    if standing.change is None or lineage.base is None or node is None or node.gate is None:
        return "unknown", "Not known: what the gate measured cannot be read."
    values = (lineage.base.mean(metric), node.gate.scores.mean(metric))
    shown = [f"{one:.3f}" if metric == "reward" else percent(one) for one in values]
    return direction(f"on the gate, the {NAMES[metric]}", shown[0], shown[1], standing.change)


def best_words(lineage: Lineage) -> str:
    """What a run would end with now, and why; empty before the first verdict."""
    changes = [node.gate.base.change for node in lineage.nodes if node.gate]
    return in_points(lineage.best.words, *changes) if lineage.best else ""


def direction(what: str, before: str, after: str, change: Difference) -> tuple[str, str]:
    """Which way something went, and whether that is more than chance."""
    numbers = (
        f"{100 * change.mean:+.1f} points, 95 % interval "
        f"{100 * change.low:+.1f} to {100 * change.high:+.1f}, n {change.n}"
    )
    if change.low > 0:
        return "yes", f"Yes: {what} rose from {before} to {after} ({numbers})."
    if change.high < 0:
        return "no", f"No: {what} fell from {before} to {after} ({numbers})."
    return "unclear", f"No clear change: {what} went from {before} to {after} ({numbers})."


def helped(lineage: Lineage) -> str:
    """What training alone gained, and what became of the changes that engineers proposed."""
    first, plan = node_at(lineage, 0), lineage.plan
    if first is None or first.gate is None:
        return ""
    start = (
        "Did the engineers help? The first version, before anybody proposed anything: "
        f"{change_words(first.gate.base.change)} against the first policy. "
    )
    gates = {
        node.number: node.gate for node in lineage.nodes if node.gate and node.version.patch
    }  # fmt: skip
    if not gates:
        return f"{start}No version with a proposed change has been judged."
    better = [str(number) for number, gate in gates.items() if gate.change.low > 0]
    if plan.control:
        against = "their controls, which trained as long"
    elif plan.start_from == "base":
        against = "their parents, which trained as long"
    else:
        against = "their parents, which trained less, so that training is part of any gain"
    names = f" (version {', '.join(better)})" if better else ""
    count = f"{len(better) or 'None'} of {len(gates)} versions with a proposed change"
    verb = "is" if len(better) < 2 else "are"
    return f"{start}{count} {verb} better beyond chance{names} than {against}."


def tested_of(final: Final | None) -> Tested | None:
    """What `coevolve final` recorded."""
    if final is None:
        return None
    first, last = (
        Rate(round(one.rate * one.n), one.n, one.low, one.high)
        for one in (final.first.rates["valid"], final.last.rates["valid"])
    )
    return Tested(first, last, final.change["valid"], final.tasks)
