"""The evidence as a table: valid rollouts by four labels, two down and two across, with n."""

from collections.abc import Sequence
from typing import NamedTuple

from coevolve.core.task import Label
from coevolve.dashboard.numbers import label
from coevolve.dashboard.record import Record
from coevolve.engineers.breakdown import carrying
from coevolve.evaluation.clusters import cautious
from coevolve.evaluation.statistics import Rate, wilson
from coevolve.evaluation.tally import str_key
from coevolve.store.cells import Cell, merged


class Evidence(NamedTuple):
    """Results on one kind of tasks."""

    tasks: str
    """dev or training."""
    rate: Rate
    dead: Rate | None
    """Groups in which every rollout earned the same; only training tries tasks several times."""
    failures: list[tuple[str, int]]
    down: str
    """The labels that rows are by."""
    across: str
    columns: list[str]
    rows: list[tuple[str, list[tuple[int, int] | None], tuple[int, int]]]
    """Its labels, valid and n of each column, and of the whole row."""


def evidence_of(record: Record, tasks: str, all_cells: Sequence[Cell]) -> Evidence | None:
    """The table of recorded cells; None if there are none."""
    if not all_cells:
        return None
    names = [name for name in labels(record, all_cells) if carrying(all_cells, name)][:4]
    cells = carrying(all_cells, *names)
    whole = merged(cells, ())[0]
    failures = sorted(whole.failures.items(), key=lambda item: (-item[1], item[0]))
    down, across = names[0::2], names[1::2]
    columns = keys(cells, across)
    rows = []
    for key in keys(cells, down):
        members = [cell for cell in cells if key_of(cell, down) == key]
        found = {key_of(cell, across): cell for cell in merged(members, across)}
        counts = [(found[c].valid, found[c].n) if c in found else None for c in columns]
        total = merged(members, ())[0]
        rows.append((spelled(key), counts, (total.valid, total.n)))
    return Evidence(
        tasks,
        cautious(whole.valid, whole.n, whole.tasks),
        wilson(whole.dead, whole.groups) if whole.groups and tasks == "training" else None,
        failures,
        " × ".join(down),
        " × ".join(across),
        [spelled(column) for column in columns],
        rows,
    )


def labels(record: Record, cells: Sequence[Cell]) -> list[str]:
    """The domain's labels in its order, or all that there are."""
    return list(record.domain.buckets) if record.domain else sorted(cells[0].labels)


def key_of(cell: Cell, names: list[str]) -> tuple[Label, ...]:
    return tuple(cell.labels[name] for name in names)


def keys(cells: list[Cell], names: list[str]) -> list[tuple[Label, ...]]:
    """All combinations of labels, numbers in numeric order."""
    found = {key_of(cell, names) for cell in cells}
    return sorted(found, key=lambda key: [str_key(part) for part in key])


def spelled(key: tuple[Label, ...]) -> str:
    return " · ".join(label(part) for part in key) or "all"
