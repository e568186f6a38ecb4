"""What came of the arms of a comparison, and the one table that follows from it.

Invariant: arms are compared by seeds that both have finished, on the very same tasks.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from coevolve.core.errors import UserError
from coevolve.core.rollout import Value
from coevolve.evaluation.falls import Fall, falls
from coevolve.evaluation.seeds import Change, Mean, change, holm, mean_rate
from coevolve.harness.comparison import UNTRAINED, Job

EQUAL = 0.9
"""Part of the greatest training below which an arm was not trained as much as others."""


class ArmResult(Value):
    """One arm with one seed, finished."""

    job: Job
    policy: str
    """What it ended with."""
    ended: str
    """done, or why it ended early."""
    tasks_hash: str
    """Of the tasks that it was measured on in the end."""
    valid: tuple[float, ...]
    """Share of the answers to each of them."""
    optimal: tuple[float, ...]
    kinds: tuple[str, ...] = ()
    """Of each task, its labels that the comparison is broken down by."""
    calls: int = 0
    """How often an engineer was asked."""
    unusable: int = 0
    """Proposals that could not be used."""
    taken: int = 0
    """Proposals that were trained on."""
    reverted: int = 0
    """Rounds that the gate took back."""
    train_rollouts: int = 0
    probe_rollouts: int = 0
    tokens: int = 0
    """Read and drawn by trainee and engineers, answers to the last tasks included."""
    train_tokens: int = 0
    seconds: float = 0.0
    money: float = 0.0


class Row(NamedTuple):
    """An arm over all its seeds."""

    arm: str
    seeds: tuple[int, ...]
    pairs: int
    """How many of its seeds the reference has, too."""
    valid: Mean
    optimal: Mean
    tasks: int
    """Per seed."""
    by_seed: tuple[float, ...]
    """Valid rates."""
    valid_change: Change | None
    """From the reference, over the seeds that both have; None for the reference itself, and where
    there are several seeds but not two pairs."""
    optimal_change: Change | None
    falls: dict[str, tuple[Fall, ...]]
    """What it is worse at than the untrained policy, and than the reference, by their names."""
    p_holm: float | None
    """p of the change of the valid rate, corrected for how many arms are compared."""
    totals: dict[str, float]
    """Mean per seed of what it did and took."""
    kinds: dict[str, tuple[Mean, Mean, int]]
    """Valid and optimal rates by the labels that were asked for, and how many tasks a seed has."""

    @property
    def counted(self) -> str:
        """How many seeds, and how many are paired, if not all."""
        n = len(self.seeds)
        return f"{n}" if self.pairs == n else f"{n}, {self.pairs} paired"

    def as_json(self) -> dict[str, Any]:
        found = {
            name: value._asdict() if isinstance(value, Mean | Change) else value
            for name, value in self._asdict().items()
        }
        kinds = {
            name: {"valid": valid._asdict(), "optimal": optimal._asdict(), "tasks": n}
            for name, (valid, optimal, n) in self.kinds.items()
        }
        falls = {
            name: [{**one._asdict(), "words": one.words} for one in fell]
            for name, fell in self.falls.items()
        }
        return {
            **found, "seeds": list(self.seeds), "by_seed": list(self.by_seed), "kinds": kinds,
            "falls": falls,
        }  # fmt: skip


METRICS = ("valid", "optimal")
TOTALS = (
    "calls", "unusable", "taken", "reverted", "train_rollouts", "probe_rollouts",
    "train_tokens", "tokens",
    "seconds", "money",
)  # fmt: skip


def table(results: Sequence[ArmResult], reference: str) -> list[Row]:
    """A row per arm, best first, then the untrained policy."""
    found: dict[str, dict[int, ArmResult]] = {}
    for result in results:
        found.setdefault(result.job.arm, {})[result.job.seed] = result
    others = {name: found.get(name, {}) for name in (reference, UNTRAINED)}
    rows = [row(arm, seeds, others) for arm, seeds in found.items()]
    compared = [r for r in rows if r.valid_change is not None and r.arm != UNTRAINED]
    corrected = holm([r.valid_change.p for r in compared if r.valid_change])
    by_arm = dict(zip((r.arm for r in compared), corrected, strict=True))
    rows = [r._replace(p_holm=by_arm.get(r.arm)) for r in rows]
    return sorted(rows, key=lambda r: (r.arm == UNTRAINED, -r.valid.mean))


def used(row: Row, equal: str) -> float:
    """How much an arm has used of what arms have equally much of: probes are counted."""
    if equal == "tokens":
        return row.totals["train_tokens"]
    return row.totals["train_rollouts"] + row.totals["probe_rollouts"]


def unequal(rows: Sequence[Row], equal: str) -> list[str]:
    """Who was trained on less than others, though arms should be trained on as much."""
    found = {one.arm: used(one, equal) for one in rows if one.arm != UNTRAINED}
    most = max(found.values(), default=0.0)
    return [
        f"{arm} used {own:,.0f} {equal}, others up to {most:,.0f}: no fair comparison"
        for arm, own in found.items()
        if own < EQUAL * most
    ]


def row(
    arm: str, found: Mapping[int, ArmResult], others: Mapping[str, Mapping[int, ArmResult]]
) -> Row:
    """One arm beside others, the reference first."""
    results = [found[seed] for seed in sorted(found)]
    reference = next(iter(others))
    changes = {name: changes_from(other, found) for name, other in others.items()}
    return Row(
        arm=arm,
        seeds=tuple(sorted(found)),
        pairs=len(found.keys() & others[reference].keys()),
        valid=mean_rate([result.valid for result in results]),
        optimal=mean_rate([result.optimal for result in results]),
        tasks=len(results[0].valid),
        by_seed=tuple(sum(result.valid) / len(result.valid) for result in results),
        valid_change=changes[reference].get("valid"),
        optimal_change=changes[reference].get("optimal"),
        falls={
            name: fell
            for name, changed in changes.items()
            if arm != UNTRAINED and (fell := falls_from(others[name], found, changed))
        },
        p_holm=None,
        totals={
            name: sum(getattr(result, name) for result in results) / len(results) for name in TOTALS
        },
        kinds={
            kind: (
                mean_rate([of_kind(one, one.valid, kind) for one in results]),
                mean_rate([of_kind(one, one.optimal, kind) for one in results]),
                len(of_kind(results[0], results[0].valid, kind)),
            )
            for kind in sorted(set.intersection(*(set(one.kinds) for one in results)))
        },
    )


def changes_from(
    against: Mapping[int, ArmResult], found: Mapping[int, ArmResult]
) -> dict[str, Change]:
    """By metric, over the seeds that both have; nothing where these are too few."""
    both = sorted(found.keys() & against.keys())
    for seed in both:
        if found[seed].tasks_hash != against[seed].tasks_hash:
            raise UserError(
                f"{found[seed].job.name} and {against[seed].job.name} were measured on different "
                "tasks; move one of them away, and it is run again"
            )
    enough = len(both) > 1 or len(both) == len(found) == len(against)
    if not both or not enough or found is against:
        return {}
    return {
        metric: change(
            [getattr(against[seed], metric) for seed in both],
            [getattr(found[seed], metric) for seed in both],
        )
        for metric in METRICS
    }


def falls_from(
    against: Mapping[int, ArmResult], found: Mapping[int, ArmResult], changes: Mapping[str, Change]
) -> tuple[Fall, ...]:
    """What an arm is worse at, by the rule of its own plan."""
    if not changes:
        return ()
    both = sorted(found.keys() & against.keys())
    plan = found[both[0]].job.plan
    before, after = (
        {
            metric: mean_rate([getattr(side[seed], metric) for seed in both]).mean
            for metric in METRICS
        }
        for side in (against, found)
    )
    return falls(before, after, changes, plan.objective.protect, plan.gate.margin)


def of_kind(result: ArmResult, values: Sequence[float], kind: str) -> list[float]:
    return [value for value, its in zip(values, result.kinds, strict=True) if its == kind]
