"""What lessons look like, knob by knob."""

from collections.abc import Callable, Sequence
from statistics import mean

from coevolve.core.task import Task
from coevolve.domains.base import Statistic
from coevolve.domains.knobs import KnobSpace


def measure(tasks: Sequence[Task], spaces: Callable[[str], KnobSpace]) -> dict[str, Statistic]:
    """For each knob, the statistic that it moves."""

    def over(value: Callable[[Task], float]) -> Statistic:
        return Statistic(sum(map(value, tasks)) / max(len(tasks), 1), len(tasks))

    def shares(task: Task) -> list[float]:
        """Of the first group, in use now or by default."""
        space, last = spaces(task.data["target"]), task.data["rounds"][-1]["knobs"]
        knobs = [space.knobs[name] for name in next(iter(space.groups.values()))]
        found = [(knob, last.get(knob.name, knob.default)) for knob in knobs]
        return [share for knob, share in found if share > 0 or knob.default > 0]

    def uneven(task: Task) -> float:
        used = [share for share in shares(task) if share > 0]
        return sum(abs(share - 1 / len(used)) for share in used) / 2

    def rough(task: Task) -> float:
        """How far shares are from the mean of their neighbours; unused ones are not."""
        hard: list[float] = list(task.data["trainee"]["harder"].values())
        middles = zip(hard, hard[1:], hard[2:], strict=False)
        return mean(abs(b - (a + c) / 2) for a, b, c in middles)

    return {
        "rate.mean": over(rate),
        "rollouts": over(lambda task: sum(c["n"] for c in task.data["rounds"][-1]["train"])),
        "rounds": over(lambda task: len(task.data["rounds"])),
        "irregular": over(rough),
        "spread": over(lambda task: task.data["trainee"]["spread"]),
        "lopsided": over(uneven),
        "several": over(lambda task: len(task.data["rounds"][-1]["train"])),
        "fewer": over(lambda task: mean(share == 0 for share in shares(task))),
    }


def rate(task: Task) -> float:
    """The valid rate in the last round."""
    cells = task.data["rounds"][-1]["train"]
    return float(sum(cell["valid"] for cell in cells) / sum(cell["n"] for cell in cells))
