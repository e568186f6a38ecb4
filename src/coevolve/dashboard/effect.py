"""Did the engineers help: what they changed, what was foretold of it, and what came of it.

Pure functions of the lineage. Invariant: a gain is the engineers' only where something trained as
long without their change, or where there was nothing to learn from without it; else nothing is
claimed.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from coevolve.backtests.numbers import chance
from coevolve.core.names import several
from coevolve.dashboard.numbers import points
from coevolve.dashboard.result import compared_with, node_at, standing_of
from coevolve.domains.change import patch_words
from coevolve.domains.knobs import KnobSpace
from coevolve.engines.stage import DEAD
from coevolve.evaluation.difference import Difference, shift
from coevolve.evaluation.seeds import student
from coevolve.harness.backtest import Backtest
from coevolve.harness.harness import Harness
from coevolve.harness.patch import Patch
from coevolve.harness.version import Version
from coevolve.loop.backtest import NOT_NEEDED
from coevolve.store.cells import pooled
from coevolve.store.lineage import Generation, Lineage, Node
from coevolve.store.phases import Tried

NOTHING = Difference(mean=0.0, low=0.0, high=0.0, p=1.0, n=0)
UNMEASURED = "luck in training was not measured; set `accept` to better, or `control` to true"
COMPARE = "compare it with `fixed`, which trains as long and changes nothing: `coevolve compare`"


Told = tuple[str, str, str]
"""An answer in a word, the number that it rests on, and the sentence."""


class Trial(NamedTuple):
    """One proposed change: what was foretold of it, and what came of it."""

    generation: int
    version: int | None
    """None: it was not trained."""
    author: str
    changed: str
    foretold: str
    """What its backtest predicted."""
    outcome: Difference
    """Of the objective, from what it is compared with; of n 0 where it was not judged."""
    against: str
    """What that is."""
    verdict: str
    """In one word; refused, passed over for others, sent back or undecided, if it was not
    trained."""
    why: str
    """Of a refusal."""
    metric: str = "valid"
    """The objective."""

    @property
    def judged(self) -> bool:
        return self.outcome.n > 0

    @property
    def told(self) -> str:
        return self.outcome.told(self.metric)


class Gain(NamedTuple):
    """What some versions gained together, and each of them."""

    versions: int
    total: Difference
    metric: str = "valid"
    """The objective."""

    @property
    def each(self) -> Difference:
        found, n = self.total, self.versions
        shared = {"mean": found.mean / n, "low": found.low / n, "high": found.high / n}
        return found.model_copy(update=shared)

    @property
    def words(self) -> str:
        each = f", {points(self.each.mean, self.metric)} for each" if self.versions > 1 else ""
        return f"{self.total.told(self.metric)}, in {several(self.versions, 'version')}{each}"


class Helped(NamedTuple):
    """Did the engineers help: what became of everything that they proposed."""

    answer: str
    """yes, no, unclear (no evidence either way) or unknown."""
    brief: str
    """The number that it rests on; empty where there is none."""
    sentence: str
    counts: dict[str, int]
    """Proposals: made, and what became of each, so that the rest adds up to them; of those that
    were trained, how many were kept."""
    before: Gain | None
    """What training gained before the first change that was kept; None where every version begins
    with the same policy, and where none was kept."""
    after: Gain | None
    """What was gained from then on, changes and further training together."""
    controls: int
    """Versions trained without a change beside changed ones."""
    trials: tuple[Trial, ...]

    @property
    def proposals(self) -> str:
        """What became of everything that was proposed."""
        ends = {name: n for name, n in self.counts.items() if n and name not in ("made", "kept")}
        kept = f" ({self.counts['kept']} of them kept)"
        parts = (f"{n} {name}{kept * (name == 'trained')}" for name, n in ends.items())
        made = several(self.counts["made"], "proposal")
        return f"{made}: {', '.join(parts)}" if ends else made

    @property
    def unlisted(self) -> int:
        """Proposals that are no trial: unusable, or more than a generation tries."""
        return self.counts["unusable"] + self.counts.get("not tried", 0)

    @property
    def parts(self) -> tuple[str, str]:
        """The answer, and the reason where there is no clear one."""
        answer, _, reason = self.sentence.partition(": ")
        if self.answer != "unclear" or not reason:
            return self.sentence, ""
        return f"{answer}.", reason[:1].upper() + reason[1:]


def helped_by(lineage: Lineage, space: KnobSpace | None) -> Helped:
    """Whether proposed changes, and not training alone, made the policy better."""
    trials = tuple(trials_of(lineage, space))
    judged = [one for one in trials if one.judged]
    counts, plan = counted(lineage), lineage.plan
    before, after = gains(lineage)
    if not judged:
        answer, brief, words = nothing_judged(counts)
    elif plan.accept == "better" and (plan.control or plan.start_from == "base"):
        answer, brief, words = by_effect(judged)
    elif plan.control:
        answer, brief, words = by_controls(judged)
    elif plan.start_from == "base":
        answer, brief, words = "unclear", "", f"No evidence that they did: {UNMEASURED}."
    else:
        dead, change = dead_before(lineage), standing_of(lineage).change
        clear = change is None or change.low > 0
        answer, brief, words = by_gain(judged, before, after, dead, clear)
    controls = sum(one.control for one in lineage.versions)
    return Helped(answer, brief, words, counts, before, after, controls, trials)


def nothing_judged(counts: dict[str, int]) -> Told:
    if not counts["made"]:
        return "unknown", "nothing proposed", "Not known: nobody has proposed a change."
    if counts["trained"]:
        words = "Not known yet: no version with a proposed change has been judged."
        return "unknown", "nothing judged", words
    unusable = "could be used" if counts["unusable"] == counts["made"] else "was trained"
    words = (
        f"No evidence that they did: of {several(counts['made'], 'proposal')} none {unusable}, so "
        "that whatever was gained is training's."
    )
    return "unclear", "nothing trained", words


def by_effect(judged: Sequence[Trial]) -> Told:
    """Where better is asked for: intervals that allow for luck in training, and for the number of
    versions, against a parent or a control that trained as long."""
    surely = [one for one in judged if one.verdict == "kept" and one.outcome.low > 0]
    best = max(surely or judged, key=lambda one: one.outcome.mean)
    brief = f"version {best.version}: {best.told}"
    if not surely:
        words = (
            f"No evidence that they did: of {several(len(judged), 'trained change')} none was kept "
            "and better beyond chance than what trained as long without it."
        )
        return "unclear", brief, words
    words = (
        f"Yes: version {best.version} ({best.changed}) came out {best.told} from "
        f"{best.against}, which trained as long without that change; {len(surely)} of "
        f"{several(len(judged), 'trained change')} did better beyond chance."
    )
    return "yes", brief, words


def by_controls(judged: Sequence[Trial]) -> Told:
    """Where no worse is asked for, and controls train beside changes: each pair of trainings is one
    observation, since a single one may be lucky."""
    beside: dict[str, list[float]] = {}
    for one in judged:
        beside.setdefault(one.against, []).append(one.outcome.mean)
    effects = [fmean(values) for values in beside.values()]
    if len(effects) < 2:
        one = judged[0]
        words = (
            f"No evidence that they did: version {one.version} came out "
            f"{one.told} from {one.against}, which trained as long, and one pair "
            "of trainings cannot tell a change from luck in training."
        )
        return "unclear", f"version {one.version}: {one.told}", words
    mean, reach = student(effects)
    metric = judged[0].metric
    low, high = points(mean - reach, metric), points(mean + reach, metric)
    gain = f"{shift(mean, metric)} on average [{low}, {high}]"
    brief = f"{gain}, n {len(effects)}"
    numbers = (
        f"over {len(effects)} pairs of changes and controls, which trained as long, changes gained "
        f"{gain}"
    )
    if mean - reach > 0:
        return "yes", brief, f"Yes: {numbers}."
    if mean + reach < 0:
        return "no", brief, f"No: {numbers}."
    return "unclear", brief, f"No evidence that they did: {numbers}."


def by_gain(
    judged: Sequence[Trial],
    before: Gain | None,
    after: Gain | None,
    dead: float = 0.0,
    clear: bool = True,
) -> Told:
    """Where training goes on, so that changes and further training cannot be told apart, unless
    nearly all groups were dead before the first change; `clear`: whether the whole gain is beyond
    chance, the choice among all versions allowed for."""
    if not any(one.verdict == "kept" for one in judged):
        words = (
            f"No evidence that they did: of {several(len(judged), 'trained change')} none was "
            "kept, so that whatever was gained is training's."
        )
        return "unclear", "nothing kept", words
    if after is None:
        why = "what the run ends with has no change of theirs"
        return "unclear", "not in what it ends with", f"No evidence that they did: {why}."
    rates = f"before their first kept change {before.words}, " if before else ""
    rates, brief = f"{rates}since then {after.words}", after.words
    if after.total.high < 0:
        return "no", brief, f"No: since their first kept change it became worse: {rates}."
    if after.total.low <= 0:
        why = "since their first kept change nothing was gained beyond chance"
        return "unclear", brief, f"No evidence that they did: {why} ({rates}). To know, {COMPARE}."
    if dead >= DEAD and not clear:
        words = (
            f"No evidence that they did: since their first kept change {after.words}, but that is "
            "not beyond chance once the choice among all versions is allowed for."
        )
        return "unclear", brief, words
    if dead >= DEAD:
        words = (
            f"Yes: until their first kept change {dead:.0%} of the groups in training were dead, "
            f"and there was next to nothing to learn from; since then {after.words}."
        )
        return "yes", brief, words
    words = (
        f"This run alone cannot tell: {rates}, but training went on as well. To know, {COMPARE}."
    )
    return "unclear", brief, words


def dead_before(lineage: Lineage) -> float:
    """The share of dead groups in training until the first proposed change that was kept."""
    first = first_kept(lineage)
    whole = pooled(
        cell
        for node in lineage.nodes
        if first and node.number < first.number and node.train
        for cell in node.train.cells
    )
    return whole.dead / whole.groups if whole.groups else 0.0


def first_kept(lineage: Lineage) -> Version | None:
    """The first version with a proposed change that was kept."""
    return next((one for one in lineage.versions if one.patch and one.verdict == "kept"), None)


def counted(lineage: Lineage) -> dict[str, int]:
    """What became of all proposals; who asks for no change proposes nothing."""
    said = [one for one in lineage.proposals if one.patch or one.failure]
    patched = [one for one in lineage.versions if one.patch]
    tried = [(each, one) for each in lineage.generations if each.tests for one in each.tests.tried]
    left = [untrained(lineage, *one) for one in tried if trained_as(lineage, *one) is None]
    later = {name: left.count(name) for name in ("sent back", "undecided") if name in left}
    unusable = sum(one.patch is None for one in said)
    again = max(0, len(said) - unusable - len(tried))
    return {
        "made": len(said),
        "trained": len(patched),
        "refused": left.count("refused"),
        "passed over": left.count("passed over"),
        **later,
        **({"not tried": again} if again else {}),
        "unusable": unusable,
        "kept": sum(one.verdict == "kept" for one in patched),
    }


def gains(lineage: Lineage) -> tuple[Gain | None, Gain | None]:
    """What was gained before the first proposed change that was kept, and since."""
    first = first_kept(lineage)
    told = node_at(lineage, standing_of(lineage).told)
    if first is None or lineage.plan.start_from == "base":
        return None, None
    judged = [one.number for one in lineage.versions if one.verdict and not one.control]
    earlier = sum(number < first.number for number in judged)
    metric, start = lineage.plan.objective.metric, node_at(lineage, lineage.unaided(first.number))
    before = start.gate.base.change if start and start.gate else None
    since = told.gate.since if told and told.gate else None
    return (
        Gain(earlier, before, metric) if before and earlier else None,
        Gain(len(judged) - earlier, since, metric) if since else None,
    )


def trials_of(lineage: Lineage, space: KnobSpace | None) -> list[Trial]:
    """Every patch that was tried, in order."""
    found = []
    for generation in lineage.generations:
        for tried in generation.tests.tried if generation.tests else ():
            node = trained_as(lineage, generation, tried)
            found.append(trial_of(lineage, generation, tried, node, space))
    return found


def trained_as(lineage: Lineage, generation: Generation, tried: Tried) -> Node | None:
    """The version that a patch of a generation was trained as."""
    if tried.refused:
        return None
    same = (
        node for node in lineage.nodes
        if node.version.generation == generation.number
        and (node.version.author, node.version.patch) == (tried.author, tried.patch)
    )  # fmt: skip
    return next(same, None)


def trial_of(
    lineage: Lineage, generation: Generation, tried: Tried, node: Node | None,
    space: KnobSpace | None,
) -> Trial:  # fmt: skip
    parent = generation.diagnose.parent if generation.diagnose else None
    before = node_at(lineage, parent or 0)  # which may be lost
    harness = before.version.harness if before else Harness()
    gate = node.gate if node else None
    left = untrained(lineage, generation, tried) if node is None else ""
    verdict = node.version.verdict or "not judged" if node else left
    return Trial(
        generation.number,
        node.number if node else None,
        tried.author,
        patch_words(tried.patch, harness, space),
        foretold(tried.patch, tried.backtest),
        gate.change if gate else NOTHING,
        compared_with(lineage, gate.against) if gate else "",
        verdict,
        tried.refused or ("a person sent it back" if left == "sent back" else ""),
        lineage.plan.objective.metric,
    )


def untrained(lineage: Lineage, generation: Generation, tried: Tried) -> str:
    """What became of a patch that was not trained."""
    open_ = "undecided" if lineage.undecided(generation) else "sent back"
    return {"": open_, NOT_NEEDED: "passed over"}.get(tried.refused, "refused")


def foretold(patch: Patch, backtest: Backtest | None) -> str:
    """What a backtest predicted; of a bet its chance, since what it bets on is no result."""
    if backtest is None:
        return "not tried"
    better = backtest.measures.get("better")
    if better is not None:
        return f"better with a chance of {chance(better.value)}, n {better.n}"
    if backtest.prediction == "unclear":
        return "could not tell"
    return f"{patch.metric.replace('_', ' ')} {backtest.prediction}"
