"""The failure breakdown: how often tasks succeed and how they fail, by their labels.

Invariant: every rate is shown as counts, and what was left out is said.
"""

from collections.abc import Iterable

from coevolve.engineers.base import View
from coevolve.engineers.signals import counted, standing
from coevolve.evaluation.clusters import cautious
from coevolve.store.cells import Cell, merged, pooled

ENOUGH = 8
"""Rollouts per row, on average, that finer rows must have."""


def breakdown(view: View, budget: int) -> str:
    """Overall rates, then each label by itself, then combinations of labels, worst first."""
    finished = standing(view)
    on_dev = pooled(finished.dev).n > 0
    cells = finished.dev if on_dev else finished.train
    everything = pooled(cells)
    if not everything.n:
        return "No tasks were tried yet (n = 0)."
    tasks = "dev" if on_dev else "training"
    lines = [f"Results after round {finished.number} on {tasks} tasks:", *overall(everything)]
    if on_dev and (train := pooled(finished.train)).n:
        lines.append(f"In training: {counted(train)}.")
    labels = varying(cells, view)
    for label in labels[:4]:
        lines += ["", f"By {label}:", *single(cells, finished.train if on_dev else (), label)]
    used = sum(len(line) + 1 for line in lines)
    if combined := rows(cells, labels, budget - used - 100):
        lines += ["", *combined]
    return "\n".join(lines)


def single(cells: Iterable[Cell], train: Iterable[Cell], label: str) -> list[str]:
    """The values of one label, each with what training saw of it."""
    lines = []
    for cell in merged(carrying(cells, label), [label]):
        trained = pooled(train, (label, cell.labels[label]))
        lines.append(row(cell) + (f"; in training {counted(trained)}" if trained.n else ""))
    return lines


def overall(cell: Cell) -> list[str]:
    lines = []
    for name, successes in (("valid", cell.valid), ("optimal", cell.optimal)):
        rate = cautious(successes, cell.n, cell.tasks)
        lines.append(
            f"- {name}: {successes} of {cell.n} = {100 * successes / cell.n:.1f} % "
            f"(95 % interval {100 * rate.low:.1f} to {100 * rate.high:.1f})"
        )
    return [*lines, f"- failures: {failures(cell) or 'none'}"]


def failures(cell: Cell) -> str:
    counts = sorted(cell.failures.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {count}" for name, count in counts)


def row(cell: Cell) -> str:
    names = ", ".join(f"{name} {value}" for name, value in cell.labels.items())
    dead = f", {cell.dead} of {cell.groups} groups dead" if cell.groups else ""
    failed = f" ({failures(cell)})" if cell.failures else ""
    return f"- {names}: {cell.valid} of {cell.n} valid, {cell.optimal} optimal{dead}{failed}"


def varying(cells: Iterable[Cell], view: View) -> list[str]:
    """Labels with more than one value: those that shares steer first, then by name."""
    values: dict[str, set[object]] = {}
    for cell in cells:
        for name, value in cell.labels.items():
            values.setdefault(name, set()).add(value)
    steered = [knob.label[0] for knob in view.space.knobs.values() if knob.label]
    names = [name for name in sorted(values) if len(values[name]) > 1]
    return sorted(names, key=lambda name: steered.index(name) if name in steered else len(steered))


def carrying(cells: Iterable[Cell], *labels: str) -> list[Cell]:
    return [cell for cell in cells if all(name in cell.labels for name in labels)]


def rows(cells: Iterable[Cell], labels: list[str], budget: int) -> list[str]:
    """Combinations of labels with most failures first; coarser where rows would be too thin."""
    for count in range(len(labels), 1, -1):
        used = labels[:count]
        found = merged(carrying(cells, *used), used)
        total = sum(cell.n for cell in found)
        if found and (total >= ENOUGH * len(found) or count == 2):
            break
    else:
        return []
    worst = sorted(found, key=lambda cell: (cell.valid - cell.n, cell.rate))
    lines = [f"By {' x '.join(used)}, most failures first:"]
    size = len(lines[0])
    for shown, cell in enumerate(worst):
        size += len(row(cell)) + 1
        if size > budget:
            left = sum(other.n for other in worst[shown:])
            return [*lines, f"({len(worst) - shown} more rows with {left} rollouts left out)"]
        lines.append(row(cell))
    return lines
