"""What generated tasks look like, knob by knob."""

from collections import Counter
from collections.abc import Sequence

from coevolve.core.task import Task
from coevolve.domains.base import Statistic
from coevolve.domains.code import forms
from coevolve.domains.code.problem import Problem


def measure(tasks: Sequence[Task]) -> dict[str, Statistic]:
    """For each knob that matters to these tasks, the statistic that it moves."""
    made = [task for task in tasks if task.data["source"] == "generated"]
    found: dict[str, Statistic] = {}
    if not made:
        return found
    for label in ("topic", "form"):
        for name, total in sorted(Counter(str(task.bucket[label]) for task in made).items()):
            found[f"{name}.share"] = Statistic(total / len(made), len(made))

    def mean(name: str, values: list[float]) -> None:
        if values:
            found[name] = Statistic(sum(values) / len(values), len(values))

    mean("large.share", [float(task.bucket["large"]) for task in made])
    mean("steps.mean", [float(len(task.data["steps"])) for task in made])
    mean("tests.count", [float(len(task.data["tests"])) for task in made])
    mean("examples.count", [float(len(task.data["examples"])) for task in made])
    mean("edge.share", [edge_share(task) for task in made])
    mean("input.size", [length for task in made for length in lengths(task)])
    return found


def edge_share(task: Task) -> float:
    kinds = [kind for kind, _, _ in task.data["tests"] if kind != "large"]
    return kinds.count("edge") / len(kinds)


def lengths(task: Task) -> list[float]:
    """Characters of each ordinary hidden input, written out."""
    problem = Problem(task.data)
    return [
        float(len(forms.write_input(problem.template.takes, problem.values(*test))))
        for test in task.data["tests"]
        if test[0] == "plain"
    ]
