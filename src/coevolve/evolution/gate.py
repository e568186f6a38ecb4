"""The gate: whether a trained checkpoint may replace the one before, by held-out gate tasks alone.

Doing nothing is always possible: what is worse beyond the margin, or has unlearned what was solved,
is reverted, if that is more than noise: of rounds that change nothing about one in twenty is, and
one in eight at worst, where many buckets lie where protection begins.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from coevolve.core.rollout import Rollout
from coevolve.core.task import Label
from coevolve.evaluation.clusters import rate_of
from coevolve.evaluation.paired import TAIL, Difference, by_task, paired
from coevolve.evaluation.statistics import Rate
from coevolve.harness.rules import GateRule, Protection


class Verdict(NamedTuple):
    """Keep or revert, and why."""

    keep: bool
    words: str
    change: Difference
    broken: dict[str, Difference]
    """Protected buckets that fell too far."""

    def as_json(self) -> dict[str, Any]:
        return {
            "keep": self.keep,
            "words": self.words,
            "change": self.change.as_json(),
            "broken": {name: fall.as_json() for name, fall in self.broken.items()},
        }


def compared(
    before: Sequence[Rollout],
    after: Sequence[Rollout],
    rule: Protection,
    seed: int,
    tail: float = TAIL,
) -> tuple[Difference, dict[str, Difference]]:
    """The change of the valid rate, and the protected buckets that fell too far."""
    pairs = _paired(before, after)
    protected = _protected(pairs, rule)
    each = tail / max(1, len(protected))  # the more buckets, the likelier that chance lowers one
    broken = {}
    for name, members in protected.items():
        fall, rate = _change(members, seed), _rate(members)
        # What is picked because it is high comes down by itself, to the middle of its interval.
        luck = max(0.0, rate.value - (rate.low + rate.high) / 2)
        if fall.mean < -rule.protected_fall and _change(members, seed, each).high < -luck:
            broken[name] = fall
    return _change(pairs, seed, tail), broken


def change_of(before: Sequence[Rollout], after: Sequence[Rollout], seed: int) -> Difference:
    """The change of the valid rate."""
    return _change(_paired(before, after), seed)


def judge(
    before: Sequence[Rollout],
    after: Sequence[Rollout],
    rule: GateRule,
    seed: int,
    tail: float = TAIL,
) -> Verdict:
    """Compare two checkpoints, task by task."""
    change, broken = compared(before, after, rule, seed, tail)
    if not rule.on:
        return Verdict(
            True, f"kept unjudged, the gate is off (change {change.words})", change, broken
        )
    if change.mean < -rule.margin and change.high < 0:
        return Verdict(
            False,
            f"reverted: the valid rate fell by more than {rule.margin}: {change.words}",
            change,
            broken,
        )
    if broken:
        return Verdict(False, f"reverted: solved buckets fell: {listed(broken)}", change, broken)
    word = (
        "better" if change.low > 0 else "worse within the margin" if change.high < 0 else "no worse"
    )
    return Verdict(True, f"kept: {word}: {change.words}", change, broken)


def judge_twice(
    before: Sequence[Rollout],
    best: Sequence[Rollout],
    among: int,
    after: Sequence[Rollout],
    rule: GateRule,
    seed: int,
) -> Verdict:
    """Compare with the checkpoint before, and then with the best so far, if that is another one.

    The best `among` many is so by luck, too: to be worse than it takes as much as to be worse than
    any of them.
    """
    verdict = judge(before, after, rule, seed)
    if not verdict.keep or best is before:
        return verdict
    since = judge(best, after, rule, seed, TAIL / among)
    if since.keep:
        return verdict
    words = since.words.replace("reverted: ", "reverted: against the best so far, ")
    return verdict._replace(keep=False, words=words, broken=since.broken)


def listed(broken: Mapping[str, Difference]) -> str:
    return ", ".join(f"{name} {fall.mean:+.2f} (n {fall.n})" for name, fall in broken.items())


Pair = tuple[Rollout, Rollout]


def _paired(before: Sequence[Rollout], after: Sequence[Rollout]) -> list[Pair]:
    """Attempts at the same task, with the same number."""
    earlier = {(rollout.task_id, rollout.sample): rollout for rollout in before}
    later = {(rollout.task_id, rollout.sample): rollout for rollout in after}
    if earlier.keys() != later.keys():
        raise ValueError("the two checkpoints were not measured on the same gate tasks")
    return [(rollout, later[key]) for key, rollout in earlier.items()]


def _change(pairs: Sequence[Pair], seed: int, tail: float = TAIL) -> Difference:
    before, after = by_task(one for one, _ in pairs), by_task(other for _, other in pairs)
    return paired(before, after, seed, tail)


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
