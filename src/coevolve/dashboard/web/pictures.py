"""The task of a rollout, found again, and the answer drawn into it.

Training tasks are on the disk; dev and gate tasks follow from the plan and are made again, once.
Invariant: a task is only taken for a rollout's if its id, which hashes its content, is.
"""

from typing import Any

from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.dashboard.boards import Picture, drawn
from coevolve.dashboard.record import Record
from coevolve.dashboard.tasks import held_out
from coevolve.domains.turns import has_turns


def draw(record: Record, rollout: dict[str, Any]) -> Picture | None:
    """The answer in its task; None where the task cannot be found again."""
    task = task_of(record, rollout)
    if record.domain is None or task is None or has_turns(record.domain):
        return None
    said = [turn["content"] for turn in rollout["messages"] if turn["role"] == "assistant"]
    return drawn(record.domain, task, said[-1] if said else "")


def task_of(record: Record, rollout: dict[str, Any]) -> Task | None:
    if rollout["source"] == "train":
        return trained(record, rollout["version"], rollout["task_id"])
    if rollout["source"] not in ("dev", "gate"):
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
