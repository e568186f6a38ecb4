"""Failures to look at, chosen to differ from each other."""

from collections.abc import Sequence

from coevolve.core.rollout import Rollout
from coevolve.core.seeds import digest
from coevolve.store.cells import Case

CLASS_WEIGHT = 2.0
"""A different failure class counts as much as this many times all labels."""
KEPT_CHARACTERS = 8_000
"""Of a task and of an answer."""


def case_of(rollout: Rollout) -> Case:
    """The first question as the task, the last answer as the answer."""
    answers = [m.content for m in rollout.messages if m.role == "assistant"]
    asked = [m.content for m in rollout.messages if m.role == "user"]
    return Case(
        task_id=rollout.task_id,
        labels=rollout.bucket,
        task=asked[0][:KEPT_CHARACTERS] if asked else "",
        answer=answers[-1][:KEPT_CHARACTERS] if answers else "",
        failure=rollout.outcome.failure or "",
        details=rollout.outcome.details,
    )


def choose_cases(found: Sequence[Rollout | Case], k: int, seed: int) -> list[Case]:
    """Up to `k` failures, each as far as possible from those before it, by class and labels.

    Follows from the failures and the seed, not from their order. Valid rollouts are passed over.
    """
    cases = [item if isinstance(item, Case) else case_of(item) for item in found]
    cases = sorted((c for c in cases if c.failure), key=lambda case: order(case, seed))
    chosen: list[Case] = []
    nearest = [float("inf")] * len(cases)
    while len(chosen) < min(k, len(cases)):
        best = max(range(len(cases)), key=nearest.__getitem__)
        chosen.append(cases[best])
        nearest = [
            min(near, distance(case, cases[best]))
            for near, case in zip(nearest, cases, strict=True)
        ]
        nearest[best] = -1.0
    return chosen


def order(case: Case, seed: int) -> bytes:
    # Half characters cannot be hashed as text.
    answer = case.answer.encode("utf-8", "surrogatepass")
    return digest(seed, "cases", case.task_id, case.failure, answer)


def distance(one: Case, other: Case) -> float:
    """The failure class, and the part of the labels, that differ."""
    names = one.labels.keys() | other.labels.keys()
    differ = sum(one.labels.get(name) != other.labels.get(name) for name in names)
    return CLASS_WEIGHT * (one.failure != other.failure) + differ / max(len(names), 1)
