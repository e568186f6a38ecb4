"""The gate: whether a trained version may stay, by held-out gate tasks alone. It has two rules.

`no worse`: kept unless it is worse beyond the margin, or has unlearned what was solved, and that is
more than noise: of versions that change nothing about one in twenty is reverted, and one in eight
at worst, where many buckets lie where protection begins.

`better`: kept if it is better beyond chance, without unlearning what was solved, and for the reason
that its patch gave. Chance is that of the evaluation, and that of training again with another seed.

By either rule a version is not valid if a blocking diagnostic says so, whatever its score, or if
its training was stopped. Doing nothing is always possible: all else leaves the lineage as it was.
A third rule, `higher`, is there to be compared with: it looks at the score and nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import NamedTuple

from scipy.stats import norm

from coevolve.core.rollout import Rollout
from coevolve.core.task import Label
from coevolve.evaluation.clusters import rate_of
from coevolve.evaluation.difference import TAIL, Difference, by_task, paired, shift, stands
from coevolve.evaluation.spread import Spread, measured
from coevolve.evaluation.statistics import Rate
from coevolve.harness.diagnostic import Alarm
from coevolve.harness.patch import Patch
from coevolve.harness.plan import RATES, Objective
from coevolve.harness.rules import GateRule, Protection
from coevolve.harness.version import Moved, Verdict

SCORES: dict[str, Callable[[Rollout], float]] = {
    "valid": lambda rollout: float(rollout.outcome.valid),
    "optimal": lambda rollout: float(rollout.outcome.optimal),
    "reward": lambda rollout: rollout.outcome.reward,
}
"""Metrics of a patch that are measured on gate tasks; any other is a diagnostic."""


NO_SPREAD = Spread()


class Side(NamedTuple):
    """What is known of a checkpoint when it is judged, or judged against."""

    gate: Sequence[Rollout]
    readings: Mapping[str, float] = {}
    """What diagnostics say of it."""
    blocking: Sequence[Alarm] = ()
    """Critical alarms that keep a version from being kept."""
    stopped: str | None = None
    """Why its training was ended early; what is measured then is the last good checkpoint."""


class Ruling(NamedTuple):
    """A verdict, and why."""

    verdict: Verdict
    words: str
    change: Difference
    """Of the objective on gate tasks."""
    protected: dict[str, Difference]
    broken: dict[str, Difference]
    moved: Moved

    @property
    def kept(self) -> bool:
        return self.verdict == "kept"


class Rules(NamedTuple):
    """By what a gate decides."""

    rule: GateRule = GateRule()
    objective: Objective = Objective()
    spread: Spread = NO_SPREAD
    """Between trainings that differ by their seed alone."""
    among: int = 1
    """How many versions were compared with the same one, this one counted: the more there are, the
    likelier that chance lifts one, so that the chance asked for is shared out."""
    seed: int = 0


def no_worse(
    before: Side, after: Side, rules: Rules, patch: Patch | None = None, tail: float = TAIL
) -> Ruling:
    """Whether a version may replace another one."""
    found, rule = compared(before, after, rules, patch, tail), rules.rule
    change, metric = found.change, rules.objective.metric
    told = change.told(metric)
    if not rule.on:
        words = f"kept unjudged, the gate is off (change {told})"
        return found._replace(verdict="kept", words=words)
    if wrong := invalid(after, told):
        return found._replace(verdict="reverted", words=f"reverted: {wrong}")
    if fallen(change, rule.margin):
        rate = " rate" if metric in RATES else ""
        words = f"the {metric}{rate} fell by more than {margin(rule.margin, metric)}: {told}"
        return found._replace(verdict="reverted", words=f"reverted: {words}")
    if found.broken:
        words = f"reverted: what is protected fell: {listed(found.broken)}"
        return found._replace(verdict="reverted", words=words)
    word = (
        "better" if change.low > 0 else "worse within the margin" if change.high < 0 else "no worse"
    )
    return found._replace(verdict="kept", words=f"kept: {word}: {told}")


def no_worse_than_best(
    before: Side, best: Side | None, among: int, after: Side, rules: Rules, patch: Patch | None
) -> Ruling:
    """Compare with the checkpoint before, and then with the best so far, if that is another one.

    The best `among` many is so by luck, too: to be worse than it takes as much as to be worse than
    any of them.
    """
    found = no_worse(before, after, rules, patch)
    if not found.kept or best is None:
        return found
    since = no_worse(best, after, rules, patch, TAIL / among)
    if since.kept:
        return found
    words = since.words.replace("reverted: ", "reverted: against the best so far, ")
    return found._replace(verdict="reverted", words=words, broken=since.broken)


def luck(ahead: Difference, among: int) -> float:
    """How far ahead of another one the best `among` many that are alike may well come out (about as
    far as Blom expects of the largest)."""
    blom = (among - 0.375) / (among + 0.25)
    return measured(ahead) * float(norm.ppf(blom))


def better(before: Side, after: Side, rules: Rules, patch: Patch | None = None) -> Ruling:
    """Whether a version is better than another one."""
    found = compared(before, after, rules, patch, spread=rules.spread)
    found = found._replace(change=rules.spread.widened(found.change, TAIL / rules.among))
    verdict, words = decided(found, after, rules, patch)
    return found._replace(verdict=verdict, words=f"{verdict}: {words}")


def higher(before: Side, after: Side, rules: Rules) -> Ruling:
    """Whether the score is higher, and nothing else: what a loop without noise, validity or
    protection in mind would keep."""
    found = compared(before, after, rules)
    told = found.change.told(rules.objective.metric)
    if found.change.mean > 0:
        return found._replace(verdict="kept", words=f"kept: a higher score: {told}")
    return found._replace(verdict="pruned", words=f"pruned: no higher score: {told}")


def decided(found: Ruling, after: Side, rules: Rules, patch: Patch | None) -> tuple[Verdict, str]:
    """The verdict in one word, and its reason."""
    change, moved, rule = found.change, found.moved, rules.rule
    metric = rules.objective.metric
    told = change.told(metric)
    if not rule.on:
        return "kept", f"unjudged, the gate is off (change {told})"
    if wrong := invalid(after, told):
        return "reverted", wrong
    if change.high < 0:
        return "reverted", f"worse: {told}"
    if found.broken:
        return "reverted", f"what is protected fell: {listed(found.broken)}; in all {told}"
    if change.low <= 0:
        return "pruned", f"not better beyond chance: {told}"
    if change.mean <= rule.gain:
        return "pruned", f"not better by more than {margin(rule.gain, metric)}: {told}"
    if patch is not None and ((by := moved.by(patch.direction)) is None or by < patch.least):
        far = "was not measured"
        if by is not None:
            far = f"moved {patch.direction} by {margin(by, patch.metric)}"
        return "pruned", (
            f"better ({told}), but not for the stated reason: {patch.metric} {far}, "
            f"at least {margin(patch.least, patch.metric)} was expected"
        )
    return "kept", f"better: {told}"


def margin(value: float, metric: str) -> str:
    """How far a metric may move or has to, in words."""
    return f"{100 * value:.4g} points" if metric in RATES else f"{value:.4g}"


def invalid(after: Side, told: str) -> str:
    """Why a version is not valid, whatever its score, of which the change is told; empty if it
    is."""
    if after.stopped:  # no gain, even if what the training began with was better
        checkpoint = f"its last good checkpoint: {told}"
        return f"training was stopped: {after.stopped}; {checkpoint}"
    if after.blocking:
        alarms = "; ".join(alarm.words for alarm in after.blocking)
        return f"not valid, whatever the score ({told}): {alarms}"
    return ""


def fallen(change: Difference, margin: float) -> bool:
    return change.mean < -margin and change.high < 0


def compared(
    before: Side,
    after: Side,
    rules: Rules,
    patch: Patch | None = None,
    tail: float = TAIL,
    spread: Spread = NO_SPREAD,
) -> Ruling:
    """What changed, with no verdict yet; `spread` is that between trainings, where a patch is
    judged and not a checkpoint."""
    pairs, rule, seed = _paired(before.gate, after.gate), rules.rule, rules.seed
    protected: dict[str, Difference] = {}
    broken = broken_buckets(pairs, rule, seed, tail)
    each = tail / max(1, len(rules.objective.protect))
    for metric in rules.objective.protect:
        protected[metric] = spread.widened(_change(pairs, seed, metric=metric))
        if fallen(protected[metric], rule.margin) and fallen(
            spread.widened(_change(pairs, seed, each, metric)), rule.margin
        ):
            broken[metric] = protected[metric]
    change = _change(pairs, seed, tail, rules.objective.metric)
    return Ruling("pruned", "", change, protected, broken, moved_by(patch, before, after))


def broken_buckets(
    pairs: Sequence["Pair"], rule: Protection, seed: int, tail: float
) -> dict[str, Difference]:
    """The protected buckets that fell too far."""
    protected = _protected(pairs, rule)
    each = tail / max(1, len(protected))  # the more buckets, the likelier that chance lowers one
    broken = {}
    for name, members in protected.items():
        fall, rate = _change(members, seed), _rate(members)
        # What is picked because it is high comes down by itself, to the middle of its interval.
        luck = max(0.0, rate.value - (rate.low + rate.high) / 2)
        if fall.mean < -rule.protected_fall and _change(members, seed, each).high < -luck:
            broken[name] = fall
    return broken


def change_of(
    before: Sequence[Rollout], after: Sequence[Rollout], seed: int, metric: str = "valid"
) -> Difference:
    """The change of a metric."""
    return _change(_paired(before, after), seed, metric=metric)


def changes_of(
    before: Sequence[Rollout], after: Sequence[Rollout], seed: int
) -> dict[str, Difference]:
    """Of every rate that is told, whichever one decides."""
    return {metric: change_of(before, after, seed, metric) for metric in RATES}


def moved_by(patch: Patch | None, before: Side, after: Side) -> Moved:
    """What became of the metric that a patch is about."""
    metric = patch.metric if patch else "valid"
    if metric in SCORES:
        old, new = (mean(map(SCORES[metric], one.gate)) for one in (before, after))
        return Moved(metric=metric, before=old, after=new)
    return Moved(
        metric=metric, before=before.readings.get(metric), after=after.readings.get(metric)
    )


def listed(broken: Mapping[str, Difference]) -> str:
    """Metrics, and kinds of tasks by their valid rate."""
    return ", ".join(
        f"{name} {shift(fall.mean, name if name in SCORES else 'valid')} (n {fall.n})"
        for name, fall in broken.items()
    )


Pair = tuple[Rollout, Rollout]


def _paired(before: Sequence[Rollout], after: Sequence[Rollout]) -> list[Pair]:
    """Attempts at the same task, with the same number."""
    earlier = {(rollout.task_id, rollout.sample): rollout for rollout in before}
    later = {(rollout.task_id, rollout.sample): rollout for rollout in after}
    if earlier.keys() != later.keys():
        raise ValueError("the two checkpoints were not measured on the same gate tasks")
    return [(rollout, later[key]) for key, rollout in earlier.items()]


def _change(
    pairs: Sequence[Pair], seed: int, tail: float = TAIL, metric: str = "valid"
) -> Difference:
    before = by_task((one for one, _ in pairs), metric)
    return paired(before, by_task((other for _, other in pairs), metric), seed, tail)


def _protected(pairs: Sequence[Pair], rule: Protection) -> dict[str, list[Pair]]:
    """Buckets, by one label at a time, that were solved before."""
    found: dict[tuple[str, Label], list[Pair]] = {}
    for pair in pairs:
        for name, label in pair[0].bucket.items():
            found.setdefault((name, label), []).append(pair)
    return {
        f"{name} {label}": members
        for (name, label), members in found.items()
        if len({one.task_id for one, _ in members}) >= rule.least
        and _rate(members).value >= rule.solved
    }


def _rate(pairs: Sequence[Pair]) -> Rate:
    """The valid rate before."""
    return rate_of([one for one, _ in pairs])


def root(before: Side, after: Side, rules: Rules) -> Ruling:
    """Where a lineage begins is not judged."""
    found = compared(before, after, rules)
    rate = sum(one.outcome.valid for one in after.gate) / len(after.gate)
    words = f"root: {stands(rate, 'valid')} of {len(after.gate)} attempts at gate tasks are valid"
    return found._replace(verdict="root", words=words)
