"""What generated tasks look like, knob by knob."""

from collections import Counter
from collections.abc import Sequence

from coevolve.core.task import Task
from coevolve.domains.base import Statistic


def measure(tasks: Sequence[Task]) -> dict[str, Statistic]:
    """For each knob that matters to these tasks, the statistic that it moves."""
    found: dict[str, Statistic] = {}
    if not tasks:
        return found
    for label in ("fault", "size"):
        for name, total in sorted(Counter(str(task.bucket[label]) for task in tasks).items()):
            found[f"{name}.share"] = Statistic(total / len(tasks), len(tasks))

    def mean(name: str, values: list[float]) -> None:
        if values:
            found[name] = Statistic(sum(values) / len(values), len(values))

    mean("faults.mean", [float(len(task.data["faults"])) for task in tasks])
    mean("hint.mean", [float(task.data["hint"]) for task in tasks])
    mean("turns.limit", [float(task.data["turns"]) for task in tasks])
    mean("history.share", [float(task.data["history"]) for task in tasks])
    mean("spread.share", [away for task in tasks for away in spread(task)])
    return found


def spread(task: Task) -> list[float]:
    """For each further fault, whether it is in another file than the first."""
    first, *others = task.data["faults"]
    return [float(fault["path"] != first["path"]) for fault in others]
