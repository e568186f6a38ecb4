"""The gate of a tree: whether a version is kept, pruned or reverted.

A version is kept if it is better than its parent beyond chance and beyond the noise floor, by means
that are valid, without unlearning what was solved, and for the reason that its patch gave. Doing
nothing is always possible: all else leaves the tree as it was.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple

from coevolve.core.rollout import Rollout
from coevolve.evaluation.paired import Difference
from coevolve.evidence.health import Alarm
from coevolve.evolution.gate import compared, listed
from coevolve.harness.patch import Patch
from coevolve.harness.rules import PromotionRule
from coevolve.harness.version import Judged

SCORES: dict[str, Callable[[Rollout], float]] = {
    "valid": lambda rollout: float(rollout.outcome.valid),
    "optimal": lambda rollout: float(rollout.outcome.optimal),
    "reward": lambda rollout: rollout.outcome.reward,
}
"""Metrics of a patch that are measured on gate tasks; any other is a diagnostic."""


class Evidence(NamedTuple):
    """What is known of a version when it is judged."""

    gate: Sequence[Rollout]
    readings: Mapping[str, float]
    """What diagnostics say of it."""
    blocking: Sequence[Alarm] = ()
    """Critical alarms that keep a version from being promoted."""
    stopped: str | None = None
    """Why its training was ended early; what is measured then is the last good checkpoint."""


class Moved(NamedTuple):
    """The metric of a patch, before and after."""

    metric: str
    before: float | None
    after: float | None
    """None where it was not measured."""

    def by(self, direction: str) -> float | None:
        """How far it moved in a direction."""
        if self.before is None or self.after is None:
            return None
        change = self.after - self.before
        return change if direction == "up" else -change


class Promotion(NamedTuple):
    """A verdict, and why."""

    verdict: Judged
    words: str
    change: Difference
    """Of the valid rate on gate tasks."""
    moved: Moved
    broken: dict[str, Difference]
    """Protected buckets that fell too far."""
    blocking: tuple[Alarm, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "keep": self.verdict == "kept",
            "words": self.words,
            "change": self.change.as_json(),
            "moved": self.moved._asdict(),
            "broken": {name: fall.as_json() for name, fall in self.broken.items()},
            "blocking": [{**alarm.model_dump(), "words": alarm.words} for alarm in self.blocking],
        }


def promote(
    parent: Evidence,
    child: Evidence,
    patch: Patch | None,
    rule: PromotionRule,
    floor: float,
    seed: int,
) -> Promotion:
    """Judge a version against its parent."""
    change, broken = compared(parent.gate, child.gate, rule, seed)
    moved = moved_by(patch, parent, child)
    verdict, words = decided(change, broken, child, moved, patch, rule, floor)
    return Promotion(verdict, f"{verdict}: {words}", change, moved, broken, tuple(child.blocking))


def decided(
    change: Difference,
    broken: Mapping[str, Difference],
    child: Evidence,
    moved: Moved,
    patch: Patch | None,
    rule: PromotionRule,
    floor: float,
) -> tuple[Judged, str]:
    """The verdict in one word, and its reason."""
    if child.stopped:  # no gain, even if what the training began with was better
        checkpoint = f"its last good checkpoint: {change.words}"
        return "reverted", f"training was stopped: {child.stopped}; {checkpoint}"
    if child.blocking:
        alarms = "; ".join(alarm.words for alarm in child.blocking)
        return "reverted", f"not valid, whatever the score ({change.words}): {alarms}"
    if change.high < 0:
        return "reverted", f"worse: {change.words}"
    if broken:
        return "reverted", f"solved buckets fell: {listed(broken)}; in all {change.words}"
    if change.low <= 0:
        return "pruned", f"not better beyond chance: {change.words}"
    if change.mean <= (least := max(rule.gain, floor)):
        return "pruned", f"not better beyond the noise floor of {least:.3f}: {change.words}"
    if patch is not None and ((by := moved.by(patch.direction)) is None or by < patch.least):
        far = "was not measured" if by is None else f"moved {patch.direction} by {by:+.4g}"
        return "pruned", (
            f"better ({change.words}), but not for the stated reason: {patch.metric} {far}, "
            f"at least {patch.least:g} was expected"
        )
    return "kept", f"better: {change.words}"


def moved_by(patch: Patch | None, parent: Evidence, child: Evidence) -> Moved:
    """What became of the metric that a patch is about."""
    metric = patch.metric if patch else "valid"
    if metric in SCORES:
        return Moved(metric, *(mean(map(SCORES[metric], one.gate)) for one in (parent, child)))
    return Moved(metric, parent.readings.get(metric), child.readings.get(metric))
