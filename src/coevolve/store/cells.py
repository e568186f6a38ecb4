"""Rollouts summed up by bucket: how often they succeed, how they fail, and what can be learned.

A cell is one combination of labels. Counts only, never rates without their n.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coevolve.core.rollout import Rollout, Value
from coevolve.core.task import Label
from coevolve.evaluation.tally import str_key

SAME = 1e-6
"""Rewards of a group that differ by less carry no signal."""


class Cell(Value):
    """All rollouts with the same labels."""

    labels: dict[str, Label]
    n: int
    valid: int
    optimal: int
    reward: float
    """Sum of rewards."""
    failures: dict[str, int] = {}
    groups: int = 0
    """Groups of rollouts of the same task, where tasks were tried several times."""
    dead: int = 0
    """Groups in which every rollout earned the same."""
    spread: float = 0.0
    """Sum over groups of the variance of rewards within the group."""

    @property
    def rate(self) -> float:
        """Share of valid rollouts, 0 without any."""
        return self.valid / self.n if self.n else 0.0

    @property
    def tasks(self) -> int:
        """Tasks, or groups, where attempts are several; else each attempt is one."""
        return self.groups or self.n


NOTHING = Cell(labels={}, n=0, valid=0, optimal=0, reward=0.0)


class Case(Value):
    """One failure, to look at."""

    task_id: str
    labels: dict[str, Label]
    task: str
    """The task as text."""
    answer: str
    failure: str
    details: dict[str, Any] = {}


class Tally:
    """A cell while it is counted."""

    def __init__(self) -> None:
        self.n = self.valid = self.optimal = 0
        self.reward = 0.0
        self.failures: Counter[str] = Counter()
        self.groups: defaultdict[str, list[float]] = defaultdict(list)

    def add(
        self, task: str, group: str, reward: float, valid: bool, optimal: bool, failure: str | None
    ) -> None:
        """Count a rollout; without a group it is compared with others at the same task."""
        self.n += 1
        self.valid += valid
        self.optimal += optimal
        self.reward += reward
        if failure:
            self.failures[failure] += 1
        self.groups[group or task].append(reward)

    def cell(self, labels: dict[str, Label]) -> Cell:
        several = [rewards for rewards in self.groups.values() if len(rewards) > 1]
        return Cell(
            labels=labels,
            n=self.n,
            valid=self.valid,
            optimal=self.optimal,
            reward=self.reward,
            failures=dict(self.failures.most_common()),
            groups=len(several),
            dead=sum(max(rewards) - min(rewards) < SAME for rewards in several),
            spread=sum(_variance(rewards) for rewards in several),
        )


class Tallies:
    """Rollouts counted by some labels, or by all that they have."""

    def __init__(self, labels: Sequence[str] = ()) -> None:
        self.labels = labels
        self.found: dict[tuple[tuple[str, Label], ...], Tally] = {}

    def of(self, bucket: Mapping[str, Label]) -> Tally:
        """Where rollouts with these labels are counted."""
        key = tuple((name, bucket[name]) for name in self.labels or sorted(bucket))
        return self.found.setdefault(key, Tally())

    def cells(self) -> list[Cell]:
        """Those with rollouts, in the order of their labels."""
        found = sorted(self.found.items(), key=_order)
        return [tally.cell(dict(key)) for key, tally in found if tally.n]


def cells_of(rollouts: Iterable[Rollout], labels: Sequence[str] = ()) -> list[Cell]:
    """One cell per combination of `labels` (all labels if none are named), in their order."""
    tallies = Tallies(labels)
    for one in rollouts:
        came = one.outcome
        tallies.of(one.bucket).add(
            one.task_id, one.group, came.reward, came.valid, came.optimal, came.failure
        )
    return tallies.cells()


def merged(cells: Iterable[Cell], labels: Sequence[str]) -> list[Cell]:
    """Coarser cells, by fewer labels; by none, one cell of everything."""
    found: dict[tuple[tuple[str, Label], ...], list[Cell]] = defaultdict(list)
    for cell in cells:
        found[tuple((name, cell.labels[name]) for name in labels)].append(cell)
    return [
        Cell(
            labels=dict(key),
            n=sum(cell.n for cell in members),
            valid=sum(cell.valid for cell in members),
            optimal=sum(cell.optimal for cell in members),
            reward=sum(cell.reward for cell in members),
            failures=dict(sum((Counter(cell.failures) for cell in members), Counter())),
            groups=sum(cell.groups for cell in members),
            dead=sum(cell.dead for cell in members),
            spread=sum(cell.spread for cell in members),
        )
        for key, members in sorted(found.items(), key=_order)
    ]


def pooled(cells: Iterable[Cell], label: tuple[str, Label] | None = None) -> Cell:
    """All cells that carry a label, as one; without a label, all cells."""
    found = [cell for cell in cells if label is None or cell.labels.get(label[0]) == label[1]]
    return merged(found, ())[0] if found else NOTHING


def _variance(values: list[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / len(values)


def _order(item: tuple[tuple[tuple[str, Label], ...], object]) -> tuple[Any, ...]:
    """Numbers in numeric order, words in alphabetic order."""
    return tuple((name, *str_key(label)) for name, label in item[0])
