"""The paper's benchmark: 3,150 tasks with three to five agents, rebuilt from a seed.

Twenty-one pairs of size and number of agents, three shares of tasks that need a wait, fifty tasks
each, spread evenly over five hole ratios; no two tasks are equal up to symmetry.
"""

from collections.abc import Iterator

from coevolve.core.errors import DomainError
from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.lake.board import board_of
from coevolve.domains.lake.canonical import fingerprint
from coevolve.domains.lake.generate import generate
from coevolve.domains.lake.knobs import SPACE, most_holes

SEED = 2606_17682
SMALLEST = {3: 3, 4: 4, 5: 5}
"""Number of agents → smallest board."""
LARGEST = 10
WAIT_SUBSETS = (0.25, 0.50, 0.75)
HOLE_RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5)
TASKS = 50


def benchmark() -> Iterator[Task]:
    """All tasks, in a fixed order."""
    seen: set[int] = set()
    for agents, smallest in SMALLEST.items():
        for size in range(smallest, LARGEST + 1):
            for subset in WAIT_SUBSETS:
                yield from subset_tasks(agents, size, subset, seen)


def subset_tasks(agents: int, size: int, subset: float, seen: set[int]) -> Iterator[Task]:
    """The tasks of one size, number of agents and share of waits."""
    streams: dict[tuple[float, bool], Iterator[Task]] = {}
    for index in range(TASKS):
        ratio = HOLE_RATIOS[index % len(HOLE_RATIOS)]
        wait = int((index + 1) * subset + 0.5) > int(index * subset + 0.5)
        key = (ratio, wait)
        if key not in streams:
            streams[key] = stream(agents, size, ratio, wait, subset)
        task = next((task for task in streams[key] if is_new(task, seen)), None)
        if task is None:
            raise DomainError(f"too few distinct boards: {size}x{size}, {agents} agents, {key}")
        yield task.model_copy(update={"bucket": {**task.bucket, "wait_subset": subset}})


def is_new(task: Task, seen: set[int]) -> bool:
    """Whether no task equal up to symmetry was seen before; remembers this one."""
    mark = fingerprint(board_of(task))
    if mark in seen:
        return False
    seen.add(mark)
    return True


def stream(agents: int, size: int, ratio: float, wait: bool, subset: float) -> Iterator[Task]:
    """Candidates with one hole ratio, as near to it as the agents leave room."""
    ratio = min(ratio, most_holes(size, agents) / size**2)
    knobs = SPACE.parse(
        {
            f"size{size}.data_ratio": 1.0,
            f"size{size}.hole_ratio": ratio,
            f"size{size}.wait_ratio": float(wait),
            f"agents{agents}.share": 1.0,
        }
    )
    seed = derive(SEED, "benchmark", agents, size, f"{subset}", f"{ratio:.3f}", str(wait))
    return generate(knobs, 4_000, seed, Split.TEST, chunk=8)
