"""The tasks of a run's target: dev, gate and test, the same for the whole run.

Invariant: no two of them share a task, and none could be trained on.
"""

import os
from collections.abc import Callable
from pathlib import Path

from coevolve.core.errors import UserError
from coevolve.core.files import replace_file
from coevolve.core.seeds import derive
from coevolve.core.splits import Split, split_of
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.domains.files import SUITE, listed_tasks
from coevolve.domains.turns import has_turns
from coevolve.harness.plan import Target

LEAST = 8
"""Tasks that dev, gate and test have at least."""
TRIES = 4
"""How often so many tasks are generated in search of different ones."""


HELD_OUT, FINAL = "held out", "final"
"""What tasks are used for: those of the whole run, and those of the test split."""


class TargetTasks:
    """Generated from knobs, or dealt out of a suite or a file."""

    def __init__(
        self, domain: Domain, target: Target, seed: int, find: Callable[[str], str] = str
    ) -> None:
        self.domain, self.target, self.seed = domain, target, seed
        self.find = find
        """Where a file lies that is recorded by its place in the run."""
        self.workers = os.cpu_count() or 1
        self.known: dict[str, list[Task]] = {}

    def held_out(self, split: Split, count: int, use: str = HELD_OUT) -> list[Task]:
        """Tasks for some use that stay the same for the whole run, and for every arm with the same
        seed. Of tasks that ask the same thing one is taken: a model answers them alike, and
        intervals count tasks as independent. There may be fewer than wanted."""
        if self.target.tasks:
            return self.dealt(split, count, use)
        knobs = self.domain.space.parse(self.target.knobs)
        seed = derive(self.seed, use, split.value)
        found: dict[str, Task] = {}
        for number in range(TRIES):
            own = derive(seed, number) if number else seed
            for task in self.domain.generate(knobs, count, own, split, self.workers):
                found.setdefault(self.question(task), task)
            if len(found) >= count:
                break
        return list(found.values())[:count]

    def dealt(self, split: Split, count: int, use: str) -> list[Task]:
        """The part for a split of the tasks that the target lists, in an order drawn for a use."""
        parts = (Split.DEV, Split.GATE, Split.TEST)
        found: dict[str, Task] = {}
        for task in self.listed(self.target.tasks):
            mark = self.domain.fingerprint(task)
            if split_of(mark) is not Split.TRAIN and parts[derive(mark, "target") % 3] is split:
                found.setdefault(self.question(task), task)
        if len(found) < min(count, LEAST):
            raise UserError(
                f"target.tasks = {self.target.tasks!r}: only {len(found)} of its tasks are left "
                f"for {split}, which needs {LEAST}; it gets a third of those that do not belong "
                "to training, so give more tasks"
            )
        seed = derive(self.seed, use, split.value)
        return sorted(found.values(), key=lambda task: derive(seed, task.id))[:count]

    def listed(self, name: str) -> list[Task]:
        """All tasks of a suite or a file."""
        if name not in self.known:
            self.known[name] = listed_tasks(self.domain, self.find(name))
        return self.known[name]

    def question(self, task: Task) -> str:
        """What a task asks: its prompt, or the task itself where that is only the beginning."""
        if has_turns(self.domain):
            return task.id
        return "\n".join(message.content for message in self.domain.prompt(task))


def keep_tasks(target: Target, folder: Path) -> Target:
    """A run whose target is a file keeps a copy of it in its folder; the target that names it."""
    name = target.tasks
    if not name or name.startswith(SUITE):
        return target
    try:
        data = Path(name).read_bytes()
    except OSError as error:
        raise UserError(f"target.tasks = {name!r}: cannot read it: {error.strerror}") from None
    own = folder / f"target{''.join(Path(name).suffixes[-2:])}"
    if own.exists() and own.read_bytes() != data:
        raise UserError(f"{own} holds other tasks than {name}; choose another folder")
    if not own.exists():
        replace_file(own, data)
    return target.model_copy(update={"tasks": str(own)})
