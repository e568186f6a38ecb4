"""Lessons among other tasks, so that a trainee learns to be a trainer, or does not forget it."""

from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.registry import get_domain


def with_lessons(tasks: list[Task], count: int, seed: int, workers: int = 1) -> list[Task]:
    """These tasks, and lessons in engineering up to a count of all."""
    missing = count - len(tasks)
    if missing <= 0:
        return tasks
    domain = get_domain("engineering")
    knobs, own = domain.space.parse({}), derive(seed, "lessons")
    return [*tasks, *domain.generate(knobs, missing, own, Split.TRAIN, workers)]
