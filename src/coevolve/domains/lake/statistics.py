"""What generated tasks look like, knob by knob."""

from collections import Counter
from collections.abc import Callable, Sequence

from coevolve.core.task import Task
from coevolve.domains.base import Statistic
from coevolve.domains.lake.board import HOLE


def mean(tasks: Sequence[Task], value: Callable[[Task], float]) -> Statistic:
    return Statistic(sum(map(value, tasks)) / max(len(tasks), 1), len(tasks))


def hole_share(task: Task) -> float:
    rows = task.data["rows"]
    return float(sum(row.count(HOLE) for row in rows) / (len(rows) * len(rows[0])))


def detour(task: Task) -> float:
    return float(task.data["cost"] - sum(task.data["distances"]))


def measure(tasks: Sequence[Task]) -> dict[str, Statistic]:
    """For each knob that matters to these tasks, the statistic that it moves."""
    found: dict[str, Statistic] = {}
    by_size: dict[int, list[Task]] = {}
    for task in tasks:
        by_size.setdefault(len(task.data["rows"]), []).append(task)
    for size, members in sorted(by_size.items()):
        found[f"size{size}.data_ratio"] = Statistic(len(members) / len(tasks), len(tasks))
        found[f"size{size}.hole_ratio"] = mean(members, hole_share)
        found[f"size{size}.wait_ratio"] = mean(members, lambda task: task.data["needs_wait"])
    agents = Counter(len(task.data["starts"]) for task in tasks)
    for count, total in sorted(agents.items()):
        found[f"agents{count}.share"] = Statistic(total / len(tasks), len(tasks))
    found["path_length.min"] = mean(tasks, lambda task: min(task.data["distances"]))
    found["path_length.max"] = mean(tasks, lambda task: max(task.data["distances"]))
    found["detour.min"] = found["detour.max"] = mean(tasks, detour)
    return found
