"""The rollouts of a training stage, read back."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from coevolve.core.rollout import Rollout
from coevolve.core.task import Task
from coevolve.store.evaluations import restored
from coevolve.store.rollouts import read


def stage_rollouts(folder: Path, tasks: Sequence[Task]) -> Iterator[Rollout]:
    """Every rollout of a stage that tried one of these tasks, with the task's labels."""
    by_id = {task.id: task for task in tasks}
    for batch in read(folder / "rollouts").to_batches():
        for row in batch.to_pylist():
            if row["task_id"] in by_id:
                yield restored(row, by_id[row["task_id"]])
