"""Tasks of a stage that are tried again, since they were half solved when last tried.

Invariant: what waits follows from the steps that are recorded, so that a stage that was cut off and
resumed tries the same tasks again.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from coevolve.store.rollouts import blocks
from coevolve.store.shards import stage_files

SEEN = ("step", "task_id", "group", "shaped")


class Revisits:
    """Tasks that wait, the first come first; each waits once."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.waiting: deque[int] = deque()

    def swap(self, tasks: Sequence[int]) -> list[int]:
        """The tasks of a step, by number, the last of them exchanged for some that wait."""
        count = min(round(self.share * len(tasks)), len(self.waiting))
        return [*tasks[: len(tasks) - count], *(self.waiting.popleft() for _ in range(count))]

    def see(self, tasks: Sequence[int], live: Sequence[bool]) -> None:
        """What came of a step, group by group."""
        for task, differs in zip(tasks, live, strict=True):
            if differs and task not in self.waiting:
                self.waiting.append(task)

    def recall(self, folder: Path, until: int, each: int, numbers: Mapping[str, int]) -> None:
        """Go through the steps before one, as they were recorded in a folder. A step begins with
        `each` groups; what it drew in place of dead ones comes after them."""
        steps: list[dict[int, tuple[int, set[float]]]] = [{} for _ in range(until)]
        for file in stage_files(folder):
            for block in blocks(file, SEEN):
                columns = (block[name].to_pylist() for name in SEEN)
                for step, task, group, earned in zip(*columns, strict=True):
                    if step < until:
                        place = int(group.partition("/")[2])
                        steps[step].setdefault(place, (numbers[task], set()))[1].add(earned)
        for groups in steps:
            found = [groups[place] for place in sorted(groups)]
            self.swap([task for task, _ in found[:each]])
            self.see([task for task, _ in found], [len(earned) > 1 for _, earned in found])
