"""The benchmark: sixty tasks, the same for everybody who has the same packages."""

from collections.abc import Iterator

from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.swe.generate import generate
from coevolve.domains.swe.knobs import SPACE
from coevolve.domains.swe.source import shipped

SEED = 2606_03108
TASKS = 60


def benchmark() -> Iterator[Task]:
    """All tasks, in a fixed order; no two are equal."""
    seen: set[str] = set()
    sources = tuple(source.name for source in shipped())
    seed = derive(SEED, "benchmark")
    for task in generate(SPACE.defaults(), 4 * TASKS, seed, Split.TEST, 1, sources):
        if task.id not in seen and len(seen) < TASKS:
            seen.add(task.id)
            yield task
        if len(seen) == TASKS:
            return
