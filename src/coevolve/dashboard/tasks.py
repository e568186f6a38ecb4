"""The held-out tasks of a run, made again from its experiment.

Invariant: they are made in this process and once: a server may not start others, nor wait twice.
"""

from functools import lru_cache
from typing import NoReturn

from coevolve.core.errors import CoevolveError
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.dashboard.record import Record
from coevolve.domains.registry import get_domain
from coevolve.evolution.measuring import Measuring
from coevolve.harness.experiment import Experiment


def held_out(record: Record, split: Split) -> dict[str, Task]:
    """The dev or gate tasks by id; empty, with a problem to show, where they cannot be made."""
    if record.experiment is None or record.domain is None:
        return {}
    try:
        return made(record.experiment.model_dump_json(), split)
    except CoevolveError as error:
        record.trouble(f"the {split} tasks cannot be made again: {error}")
        return {}


@lru_cache(maxsize=16)
def made(text: str, split: Split) -> dict[str, Task]:
    experiment = Experiment.model_validate_json(text)
    measuring = Measuring(experiment, get_domain(experiment.domain), nothing)
    measuring.workers = 1
    count: int = getattr(experiment.measured, split.value)
    return {task.id: task for task in measuring.held_out(split, count)}


def nothing(name: str) -> NoReturn:
    """No policy is needed to make tasks."""
    raise AssertionError(name)
