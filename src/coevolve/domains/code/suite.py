"""The benchmark: twenty tasks of each topic, the same for everybody, rebuilt from a seed."""

from collections.abc import Iterator

from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.code.generate import fingerprint, generate
from coevolve.domains.code.knobs import SPACE
from coevolve.domains.code.topics import TOPICS

SEED = 2606_03108
TASKS = 20


def benchmark() -> Iterator[Task]:
    """All tasks, in a fixed order; no two are the same problem."""
    for topic in TOPICS:
        knobs = SPACE.parse({f"{topic}.share": 1.0})
        seen: set[int] = set()
        for task in generate(knobs, 100 * TASKS, derive(SEED, "benchmark", topic), Split.TEST):
            if fingerprint(task.data) not in seen:
                seen.add(fingerprint(task.data))
                yield task
            if len(seen) == TASKS:
                break
