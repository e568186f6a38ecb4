"""The held-out tasks of a run, made again from its plan.

Invariant: they are made in this process and once: a server may not start others, nor wait twice.
"""

from functools import lru_cache
from typing import NoReturn

from coevolve.core.errors import CoevolveError
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.dashboard.record import Record
from coevolve.domains.registry import get_domain
from coevolve.harness.plan import Plan
from coevolve.loop.measure import Gauge


def held_out(record: Record, split: Split) -> dict[str, Task]:
    """The dev or gate tasks by id; empty, with a problem to show, where they cannot be made."""
    if record.plan is None or record.domain is None:
        return {}
    try:
        return made(record.plan.model_dump_json(), split)
    except CoevolveError as error:
        record.trouble(f"the {split} tasks cannot be made again: {error}")
        return {}


@lru_cache(maxsize=16)
def made(text: str, split: Split) -> dict[str, Task]:
    plan = Plan.model_validate_json(text)
    gauge = Gauge(plan, get_domain(plan.domain), nothing)
    gauge.workers = 1
    tasks = gauge.dev if split is Split.DEV else gauge.gate
    return {task.id: task for task in tasks}


def nothing(name: str) -> NoReturn:
    """No policy is needed to make tasks."""
    raise AssertionError(name)
