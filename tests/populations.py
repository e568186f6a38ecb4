"""Populations of rollouts made to order, kept as the training of a version, for tests."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coevolve.core.rollout import Message, Outcome, Rollout, StopReason
from coevolve.core.splits import Split
from coevolve.harness.harness import Harness
from coevolve.harness.patch import Patch
from coevolve.harness.plan import make_plan
from coevolve.harness.version import Version
from coevolve.store.ledger import Ledger
from coevolve.store.paths import version_place
from coevolve.store.rollouts import write

PLAN = make_plan({"name": "made"}, "test").model_dump(mode="json")


def drawn(task: str, step: int, sample: int, **facts: Any) -> Rollout:
    """One rollout of training, valid or not; what is not named is ordinary."""
    valid = bool(facts.get("valid", False))
    reward = float(facts.get("reward", valid))
    said = Message(role="assistant", content=str(facts.get("text", "an answer")))
    return Rollout(
        task_id=task,
        domain="code",
        split=facts.get("split", Split.TRAIN),
        bucket={"topic": facts.get("topic", "lists")},
        messages=(Message(role="user", content="?"), *[said] * int(facts.get("turns", 1))),
        outcome=Outcome(
            valid=valid,
            optimal=bool(facts.get("optimal", valid)),
            reward=reward,
            components={"tests": float(valid), "solved": float(valid), "format": 0.0}
            | facts.get("components", {}),
            failure=None if valid else facts.get("failure", "wrong"),
            details=facts.get("details", {}),
        ),
        stop=StopReason.LENGTH if facts.get("truncated") else StopReason.END,
        sample=sample,
        policy="p",
        completion_tokens=int(facts.get("tokens", 100)),
        mean_logprob=-0.4,
        entropy=facts.get("entropy", 0.5),
        step=step,
        group=f"{step}/{task}" if step >= 0 else "",
    )


def keep_training(
    folder: Path, groups: Sequence[Sequence[dict[str, Any]]], version: int = 0, per_step: int = 4
) -> list[Rollout]:
    """Groups of rollouts as the training of a version, `per_step` groups to a step."""
    with Ledger.create(folder, PLAN):
        pass
    kept: list[Rollout] = []
    for step in range(-(-len(groups) // per_step)):
        rollouts = [
            drawn(f"task-{version}-{step}-{place}", step, sample, **facts)
            for place, group in enumerate(groups[step * per_step : (step + 1) * per_step])
            for sample, facts in enumerate(group)
        ]
        write(
            rollouts,
            folder / version_place(version) / f"stage/rollouts/step-{step:06d}-0.parquet",
        )
        kept += rollouts
    return kept


def root(**harness: Any) -> Version:
    """The version that patches are tried on."""
    return Version(number=0, parent=None, patch=None, harness=Harness(**harness), verdict="root")


def patch(factor: str, value: Any, **fields: Any) -> Patch:
    return Patch(**{"factor": factor, "value": value, "hypothesis": "it may help", **fields})


def mixed(
    rng: random.Random, groups: int, size: int = 8, **rates: float
) -> list[list[dict[str, Any]]]:
    """Ordinary groups: tasks of every difficulty, answers of every length."""
    found = []
    for _ in range(groups):
        chance = rng.random()
        found.append(
            [
                {
                    "valid": (valid := rng.random() < chance),
                    "optimal": valid and rng.random() < 0.5,
                    "tokens": rng.randint(20, 300),
                    "turns": rng.randint(1, 4),
                    "truncated": not valid and rng.random() < rates.get("truncated", 0.1),
                    "components": {} if valid else {"tests": rng.choice((0.0, 0.25, 0.5))},
                }
                for _ in range(size)
            ]
        )
    return found
