"""The benchmark: 480 tasks over operations, forms of answers and numbers of steps, from a seed."""

from collections.abc import Iterator
from itertools import product

from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.math.knobs import FORMS, OPERATIONS
from coevolve.domains.simple import SimpleDomain

SEED = 2606_17682
STEPS = (1, 2, 4)
TASKS = 10


def benchmark(domain: SimpleDomain) -> Iterator[Task]:
    """All tasks, in a fixed order."""
    for operation, form, steps in product(OPERATIONS, FORMS, STEPS):
        changes = {f"{operation}.share": 1.0, f"{form}.share": 1.0, "steps": float(steps)}
        knobs = domain.space.parse(changes)
        seed = derive(SEED, "benchmark", operation, form, steps)
        yield from domain.generate(knobs, TASKS, seed, Split.TEST)
