"""The rollouts of a training stage, read back a block at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from coevolve.core.rollout import Rollout
from coevolve.core.task import Task
from coevolve.store.cells import Cell, Tallies
from coevolve.store.evaluations import restored
from coevolve.store.rollouts import blocks
from coevolve.store.shards import stage_files

COUNTED = ("task_id", "group", "reward", "valid", "optimal", "failure")


def stage_rollouts(folder: Path, tasks: Sequence[Task]) -> Iterator[Rollout]:
    """Every rollout of a stage that tried one of these tasks, with the task's labels."""
    by_id = {task.id: task for task in tasks}
    for file in stage_files(folder / "rollouts"):
        for block in blocks(file):
            for row in block.to_pylist():
                if row["task_id"] in by_id:
                    yield restored(row, by_id[row["task_id"]])


def stage_cells(folder: Path, tasks: Sequence[Task]) -> list[Cell]:
    """`cells_of` all these rollouts, without a look at what they say."""
    tallies = Tallies()
    by_id = {task.id: tallies.of(task.bucket) for task in tasks}
    for file in stage_files(folder / "rollouts"):
        for block in blocks(file, COUNTED):
            for task, *judged in zip(*(block[name].to_pylist() for name in COUNTED), strict=True):
                if task in by_id:
                    by_id[task].add(task, *judged)
    return tallies.cells()
