"""The failure breakdown: what training and target consist of, how often tasks succeed there, and
how they fail, by their labels.

Invariant: every rate is shown as counts, and what was left out is said.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coevolve.core.fence import fenced
from coevolve.core.task import Label
from coevolve.domains.knobs import Knob
from coevolve.engineers.base import Past, View
from coevolve.engineers.signals import counted, standing
from coevolve.evaluation.clusters import cautious
from coevolve.evaluation.tally import str_key
from coevolve.store.cells import Cell, merged, pooled

ENOUGH = 8
"""Rollouts per row, on average, that finer rows must have."""
THIN = 20
"""Rollouts below which values of a label that no share steers are put together."""


class Kind(NamedTuple):
    """Tasks with one value of a label, or with several that are rare."""

    values: tuple[Label, ...]
    dev: Cell
    train: Cell
    explored: Cell
    share: float | None
    """Of training tasks."""
    target: float | None
    """Of the target's."""

    @property
    def name(self) -> str:
        first, last = self.values[0], self.values[-1]
        if len(self.values) == 1:
            return str(first)
        numbers = all(isinstance(value, int | float) for value in self.values)
        return f"{first} to {last}" if numbers else f"{first} and {len(self.values) - 1} more"


def breakdown(view: View, budget: int) -> str:
    """Overall rates, then each label by itself, then combinations of labels, worst first."""
    finished = standing(view)
    on_dev = pooled(finished.dev).n > 0
    cells = finished.dev if on_dev else finished.train
    everything = pooled(cells)
    if not everything.n:
        return "No tasks were tried yet (n = 0)."
    tasks = "dev" if on_dev else "training"
    heading = f"Results of version {finished.number} on {tasks} tasks:\n"
    budget -= len(heading) + 8
    lines = [*since(view, finished), *overall(everything), *meant(view, everything)]
    if on_dev and (train := pooled(finished.train)).n:
        lines.append(f"In training: {counted(train)}.")
    found = {label: kinds(view, finished, label) for label in labels_of(view, finished)}
    left = [label for label, rows in found.items() if len(rows) > 1]
    left.sort(key=lambda label: 0 if steering(view, label) else len(found[label]))
    labels = list(left)
    while left:
        steered = bool(steering(view, left[0]))
        added = ["", f"By {left[0]}:", *table(left[0], found[left[0]], steered)]
        if size(lines) + size(added) > budget - 100:
            lines += ["", f"(Left out: by {', '.join(left)})"]
            break
        lines += added
        left.pop(0)
    trained = finished.train if on_dev else ()
    if combined := rows(cells, labels, budget - size(lines) - 100, trained):
        lines += ["", *combined]
    return heading + fenced("\n".join(lines), budget)


def since(view: View, finished: Past) -> list[str]:
    """What was tried after the version in force and left nothing behind."""
    back = [past for past in view.history if past.number > finished.number]
    lines = [f"Version {past.number} was taken back{reason(past)}." for past in back]
    if back:
        lines.append(f"So training goes on from version {finished.number}, as shown before.")
    return lines


def reason(past: Past) -> str:
    return f": {past.why}" if past.why else ""


def size(lines: Sequence[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def steering(view: View, label: str) -> dict[Label, Knob]:
    """The shares that steer a label, by its values."""
    knobs = view.space.knobs.values()
    return {knob.label[1]: knob for knob in knobs if knob.label and knob.label[0] == label}


def labels_of(view: View, finished: Past) -> list[str]:
    """All labels of tasks: those that shares steer first, then by name."""
    steered = [knob.label[0] for knob in view.space.knobs.values() if knob.label]
    cells = (*finished.dev, *finished.train, *finished.explored)
    seen = sorted({name for cell in cells for name in cell.labels})
    return list(dict.fromkeys([*(name for name in steered if name in seen), *seen]))


def kinds(view: View, finished: Past, label: str) -> list[Kind]:
    """What is trained on, asked for by the target, or was tried, by one label."""
    knobs, cells = steering(view, label), (finished.dev, finished.train, finished.explored)
    values = {cell.labels[label] for part in cells for cell in part if label in cell.labels}
    for value, knob in knobs.items():
        known = view.target.get(knob.name)
        if view.incumbent[knob.name] > 0 or (known and known.value > 0):
            values.add(value)
    groups: list[tuple[Label, ...]] = [(value,) for value in sorted(values, key=str_key)]
    if not knobs:
        counts = [max(pooled(among(part, label, group)).n for part in cells) for group in groups]
        groups = together(counts, groups)
    return [kind(view, finished, label, group) for group in groups]


def together(counts: Sequence[int], groups: Sequence[tuple[Label, ...]]) -> list[tuple[Label, ...]]:
    """Neighbours, until each group has enough rollouts on dev or in training."""
    found: list[tuple[Label, ...]] = []
    thin = 0
    for count, group in zip(counts, groups, strict=True):
        if thin:
            found[-1] += group
        else:
            found.append(group)
        thin = thin + count if thin + count < THIN else 0
    if thin and len(found) > 1:
        found[-2:] = [found[-2] + found[-1]]
    return found


def kind(view: View, finished: Past, label: str, values: tuple[Label, ...]) -> Kind:
    dev, train, explored = (
        pooled(among(cells, label, values))
        for cells in (finished.dev, finished.train, finished.explored)
    )
    knob = steering(view, label).get(values[0])
    share = view.incumbent[knob.name] if knob else part(train, finished.train, label)
    known = view.target.get(knob.name) if knob else None
    target = known.value if known else part(dev, finished.dev, label)
    return Kind(values, dev, train, explored, share, target)


def part(cell: Cell, cells: Iterable[Cell], label: str) -> float | None:
    """Of all rollouts that have a label; None where there are none."""
    whole = pooled(carrying(cells, label)).n
    return cell.n / whole if whole else None


def among(cells: Iterable[Cell], label: str, values: Sequence[Label]) -> list[Cell]:
    return [cell for cell in cells if label in cell.labels and cell.labels[label] in values]


def carrying(cells: Iterable[Cell], *labels: str) -> list[Cell]:
    return [cell for cell in cells if all(name in cell.labels for name in labels)]


def table(label: str, found: Sequence[Kind], steered: bool) -> list[str]:
    """One row for each kind; columns that would be empty are left out."""
    columns = {
        label: [one.name for one in found],
        "share now" if steered else "share in training": [shown(one.share) for one in found],
        "target": [shown(one.target) for one in found],
        "dev valid": [both(one.dev) for one in found],
        "dev optimal": [f"{one.dev.optimal}" if one.dev.n else "" for one in found],
        "training valid": [both(one.train) for one in found],
        "live groups": [live(one.train) for one in found],
        "tried beside training, valid": [both(one.explored) for one in found],
        "failures on dev": [failures(one.dev) for one in found],
        "failures in training, where dev has none": [
            failures(one.train) if not one.dev.n else "" for one in found
        ],
    }
    used = {name: texts for name, texts in columns.items() if any(texts)}
    lines = [list(used), *map(list, zip(*used.values(), strict=True))]
    return [f"| {' | '.join(text or '-' for text in line)} |" for line in lines]


def shown(share: float | None) -> str:
    return "" if share is None else f"{share:.2g}"


def rate(cell: Cell) -> str:
    return f"{cell.valid} of {cell.n}" if cell.n else ""


def percent(cell: Cell) -> str:
    return f"{100 * cell.valid / cell.n:.0f} %" if cell.n else ""


def both(cell: Cell) -> str:
    """A rate as counts and in percent: small models cannot divide."""
    return f"{rate(cell)}, {percent(cell)}" if cell.n else ""


def live(cell: Cell) -> str:
    return f"{cell.groups - cell.dead} of {cell.groups}" if cell.groups else ""


def overall(cell: Cell) -> list[str]:
    lines = []
    for name, successes in (("valid", cell.valid), ("optimal", cell.optimal)):
        rate = cautious(successes, cell.n, cell.tasks)
        each = "" if cell.tasks == cell.n else f" answers to {cell.tasks} tasks"
        lines.append(
            f"- {name}: {successes} of {cell.n}{each} = {100 * successes / cell.n:.1f} % "
            f"(95 % interval {100 * rate.low:.1f} to {100 * rate.high:.1f})"
        )
    return [*lines, f"- failures: {failures(cell) or 'none'}"]


def meant(view: View, cell: Cell) -> list[str]:
    """What the failures are that were seen."""
    told = [f"{name}: {view.meanings[name]}" for name in cell.failures if name in view.meanings]
    return [f"  ({'; '.join(sorted(told))})"] if told else []


def failures(cell: Cell) -> str:
    counts = sorted(cell.failures.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {count}" for name, count in counts)


def row(cell: Cell, train: Cell | None) -> str:
    names = ", ".join(f"{name} {value}" for name, value in cell.labels.items())
    failed = f" ({failures(cell)})" if cell.failures else ""
    alive = f", {live(train)} groups live" if train and train.groups else ""
    beside = f"; in training {rate(train)} valid{alive}" if train else ""
    return f"- {names}: {cell.valid} of {cell.n} valid, {cell.optimal} optimal{failed}{beside}"


def rows(
    cells: Iterable[Cell], labels: list[str], budget: int, trained: Iterable[Cell] = ()
) -> list[str]:
    """Combinations of labels with most failures first; coarser where rows would be too thin, and
    without those that are. Beside them, what was `trained` of the same kind."""
    cells = list(cells)
    labels = [
        name for name in labels
        if len({cell.labels[name] for cell in carrying(cells, name)}) > 1
    ]  # fmt: skip
    for count in range(len(labels), 1, -1):
        used = labels[:count]
        found = merged(carrying(cells, *used), used)
        total = sum(cell.n for cell in found)
        if found and (total >= ENOUGH * len(found) or count == 2):
            break
    else:
        return []
    thick = [cell for cell in found if cell.n >= ENOUGH]
    worst = sorted(thick, key=lambda cell: (cell.valid - cell.n, cell.rate))
    lines = [f"By {' x '.join(used)}, most failures first:"]
    length = len(lines[0])
    alike = {str(one.labels): one for one in merged(carrying(trained, *used), used)}
    for cell in worst:
        told = row(cell, alike.get(str(cell.labels)))
        length += len(told) + 1
        if length > budget:
            break
        lines.append(told)
    rest = len(found) - len(lines) + 1
    left = total - sum(cell.n for cell in worst[: len(lines) - 1])
    return [*lines, f"({rest} more rows with {left} rollouts left out)"] if rest else lines
