"""The watch: ends a stage that goes wrong, with a reason. It only reads the metrics of steps."""

import math
from collections import deque
from collections.abc import Mapping
from statistics import fmean

from coevolve.harness.rules import WatchRule

AT_ONCE = ("gap", "ratio")
"""Rules that need no patience at the first step: the weights that drew are those that learn."""


class Watch:
    """Sees every step once and says why to stop, or None."""

    def __init__(self, limits: WatchRule) -> None:
        self.limits = limits
        self.first: dict[str, float] = {}
        self.strikes: dict[str, int] = {}
        self.rewards: deque[float] = deque(maxlen=limits.patience)
        self.best = 0.0
        self.began: float | None = None
        """Reward over the first steps."""
        self.drift = 0.0
        """As it was last measured, which is not at every step."""

    def see(self, metrics: Mapping[str, float]) -> str | None:
        """The reason to stop after a step with these metrics."""
        for name in ("loss", "grad_norm"):
            value = metrics.get(name, 0.0)
            if not math.isfinite(value):
                return f"{name} is {value}: lower learning_rate, or look at the last rollouts"
        if "reward" not in metrics:  # supervised: entropy is meant to fall, and there are no groups
            return None
        begins = not self.first
        for name, value in metrics.items():
            self.first.setdefault(name, value)
        self.drift = metrics.get("drift", self.drift)
        self.rewards.append(metrics["reward"])
        if len(self.rewards) == self.limits.patience:
            now = fmean(self.rewards)
            self.best, self.began = max(self.best, now), now if self.began is None else self.began
        for rule, alarm in self.alarms(metrics).items():
            self.strikes[rule] = self.strikes.get(rule, 0) + 1 if alarm else 0
            if alarm and begins and rule in AT_ONCE:
                return f"at the first step: {alarm}"
            if alarm and self.strikes[rule] >= self.limits.patience:
                return f"{self.strikes[rule]} steps in a row: {alarm}"
        return None

    @property
    def calm(self) -> bool:
        """Whether the last step was within all limits, so that its weights can be called good.

        Dead groups move no weights.
        """
        return not any(count for rule, count in self.strikes.items() if rule != "dead")

    @property
    def gains(self) -> bool:
        """Whether more is earned than at the beginning: thinking that grows then is no fault."""
        return self.began is not None and fmean(self.rewards) > self.began

    def alarms(self, metrics: Mapping[str, float]) -> dict[str, str]:
        """Every rule with what is wrong, empty where nothing is."""
        limits, first = self.limits, self.first
        found = dict.fromkeys(
            ("entropy", "drift", "dead", "length", "reward", "cut", "gap", "ratio", "unjudged"), ""
        )
        if "entropy" in metrics and metrics["entropy"] < limits.entropy_share * first["entropy"]:
            found["entropy"] = (
                f"entropy collapsed from {first['entropy']:.3g} to {metrics['entropy']:.3g}: "
                "raise temperature or entropy, or lower learning_rate"
            )
        if (away := max(self.drift, metrics.get("kl", 0.0))) > limits.drift:
            found["drift"] = (
                f"the policy is {away:.2g} nats per token away from its start "
                f"(limit {limits.drift}): raise kl or lower learning_rate"
            )
        if metrics.get("dead", 0.0) >= limits.dead_share:
            found["dead"] = (
                f"{metrics['dead']:.0%} of the groups are dead, there is nothing to learn from: "
                "take easier or harder tasks, larger groups or a finer reward"
            )
        grown = metrics.get("length", 0.0) / max(first.get("length", 0.0), 8.0)
        if grown > limits.length_factor and not self.gains:
            found["length"] = (
                f"answers grew from {first['length']:.0f} to {metrics['length']:.0f} tokens, and "
                "earn no more: penalise length or lower max_tokens"
            )
        if self.best > 0 and fmean(self.rewards) < limits.reward_share * self.best:
            found["reward"] = (
                f"reward fell from {self.best:.3f} to {fmean(self.rewards):.3f}: "
                "lower learning_rate, or raise kl"
            )
        cut, began_short = metrics.get("cut", 0.0), first.get("cut", 0.0) < limits.cut_share / 2
        if cut > limits.cut_share and began_short and not self.gains:
            found["cut"] = f"{cut:.0%} of the answers are cut off: raise max_tokens"
        other = "tokens are drawn with other probabilities than are learned from"
        mend = "use generator = local, or one in the same precision"
        if (gap := metrics.get("logprob_gap", 0.0)) > limits.gap:
            found["gap"] = f"{other}, by {gap:.2g} nats per token (limit {limits.gap}): {mend}"
        ratio = metrics.get("importance_ratio", 1.0)
        if abs(ratio - 1) > limits.ratio:
            found["ratio"] = (
                f"{other}: their mean ratio is {ratio:.2g} instead of 1 (limit {limits.ratio} "
                f"away): {mend}"
            )
        if (unjudged := metrics.get("unjudged", 0.0)) > limits.unjudged_share:
            found["unjudged"] = (
                f"{unjudged:.0%} of the answers could not be judged: look at the reasons of the "
                "rollouts that failed with judge_error, and repair the verifier"
            )
        return found
