"""The tasks of a run, found again: those of training on the disk, held-out tasks by its plan.

Invariant: held-out tasks are made in this process and once: a server may not start others, nor wait
twice. A task is only taken for a rollout's if its id, which hashes its content, is.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.dashboard.record import Record
from coevolve.domains.registry import get_domain
from coevolve.evaluation.target import FINAL, HELD_OUT, TargetTasks
from coevolve.harness.plan import Plan
from coevolve.store.paths import Paths


def held_out(record: Record, split: Split) -> dict[str, Task]:
    """Held-out tasks by id; empty, with a problem to show, where they cannot be made."""
    if record.plan is None or record.domain is None:
        return {}
    try:
        target, final = record.plan.target, record.lineage.final
        counts = {
            Split.DEV: target.dev, Split.GATE: target.gate, Split.TEST: final.tasks if final else 0,
        }  # fmt: skip
        return made(record.plan.model_dump_json(), record.paths, split, counts[split])
    except CoevolveError as error:
        record.trouble(f"the {split} tasks cannot be made again: {error}")
        return {}


@lru_cache(maxsize=16)
def made(text: str, paths: Paths, split: Split, count: int) -> dict[str, Task]:
    plan = Plan.model_validate_json(text)
    target = TargetTasks(get_domain(plan.domain), plan.target, plan.seed, paths.find)
    target.workers = 1
    use = FINAL if split is Split.TEST else HELD_OUT
    return {task.id: task for task in target.held_out(split, count, use)}


def task_of(record: Record, rollout: Mapping[str, Any]) -> Task | None:
    """The task of a stored rollout; None where it cannot be found again."""
    if rollout["source"] == "train":
        return trained(record, rollout["version"], rollout["task_id"])
    if rollout["source"] not in ("dev", "gate", "test"):
        return None
    return held_out(record, Split(rollout["source"])).get(rollout["task_id"])


def trained(record: Record, version: int, task_id: str) -> Task | None:
    """A task that a version was trained on."""
    path = record.paths.version(version) / "stage" / "tasks.jsonl"
    try:
        with path.open(encoding="utf-8") as lines:
            line = next((line for line in lines if task_id in line), None)
        task = Task.model_validate_json(line) if line else None
    except (OSError, ValueError):
        return None
    return task if task and task.id == task_id else None
