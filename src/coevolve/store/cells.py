"""Rollouts summed up by bucket: how often they succeed, how they fail, and what can be learned.

A cell is one combination of labels. Counts only, never rates without their n.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
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


def cells_of(rollouts: Iterable[Rollout], labels: Sequence[str] = ()) -> list[Cell]:
    """One cell per combination of `labels` (all labels if none are named), in their order."""
    found: dict[tuple[tuple[str, Label], ...], list[Rollout]] = defaultdict(list)
    for rollout in rollouts:
        names = labels or sorted(rollout.bucket)
        found[tuple((name, rollout.bucket[name]) for name in names)].append(rollout)
    return [_cell(dict(key), members) for key, members in sorted(found.items(), key=_order)]


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


def _cell(labels: dict[str, Label], rollouts: list[Rollout]) -> Cell:
    outcomes = [rollout.outcome for rollout in rollouts]
    groups: dict[str, list[float]] = defaultdict(list)
    for rollout in rollouts:
        groups[rollout.group or rollout.task_id].append(rollout.outcome.reward)
    several = [rewards for rewards in groups.values() if len(rewards) > 1]
    failures = Counter(outcome.failure for outcome in outcomes if outcome.failure)
    return Cell(
        labels=labels,
        n=len(rollouts),
        valid=sum(outcome.valid for outcome in outcomes),
        optimal=sum(outcome.optimal for outcome in outcomes),
        reward=sum(outcome.reward for outcome in outcomes),
        failures=dict(failures.most_common()),
        groups=len(several),
        dead=sum(max(rewards) - min(rewards) < SAME for rewards in several),
        spread=sum(_variance(rewards) for rewards in several),
    )


def _variance(values: list[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / len(values)


def _order(item: tuple[tuple[tuple[str, Label], ...], object]) -> tuple[Any, ...]:
    """Numbers in numeric order, words in alphabetic order."""
    return tuple((name, *str_key(label)) for name, label in item[0])
