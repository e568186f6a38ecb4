"""What the evidence says about each share and each difficulty knob, for engineers that are rules.

Works from groups, labels and the direction `harder` alone. Missing labels and empty cells are
signals with n = 0, never errors.
"""

from typing import NamedTuple

from coevolve.core.task import Label
from coevolve.domains.knobs import Knob
from coevolve.engineers.base import Past, View
from coevolve.store.cells import NOTHING, Cell, pooled

Ruling = tuple[dict[str, float], str]
"""What a rule comes to: the knobs that it changes, and why."""


class Signal(NamedTuple):
    """The evidence on the tasks that a share stands for."""

    knob: Knob
    share: float
    """In the incumbent."""
    cell: Cell

    @property
    def name(self) -> str:
        return " ".join(map(str, self.knob.label)) if self.knob.label else self.knob.name


def standing(view: View) -> Past:
    """The version whose checkpoint is in force."""
    kept = [past for past in view.history if past.verdict == "kept"]
    return (kept or [view.last])[-1]


def evidence(finished: Past, label: tuple[str, Label] | None = None) -> Cell:
    """Rollouts of training and exploring, or dev where there are none."""
    train = pooled((*finished.train, *finished.explored), label)
    return train if train.n else pooled(finished.dev, label)


def signals(view: View, group: str, closed: bool = False) -> list[Signal]:
    """One signal for each share of a group that is in use, and, with `closed`, for every other one
    of which anything is known; in the order of the group."""
    finished = standing(view)
    found = []
    for knob in map(view.space.knobs.__getitem__, view.space.groups[group]):
        share = view.incumbent[knob.name]
        cell = evidence(finished, knob.label) if knob.label else NOTHING
        if share > 0 or (closed and cell.n):
            found.append(Signal(knob, share, cell))
    return found


def difficulty(view: View) -> list[tuple[Knob, str, Cell]]:
    """Each difficulty knob in use, with the name and the evidence of the tasks it shapes.

    A knob hangs on the share whose name begins alike, or else on everything.
    """
    owners = {s.knob.prefix: s for group in view.space.groups for s in signals(view, group)}
    everything = evidence(standing(view))
    found = []
    for knob in view.incumbent.in_use():
        if knob.harder and not knob.group:
            owner = owners.get(knob.prefix)
            found.append((knob, owner.name, owner.cell) if owner else (knob, "all", everything))
    return found


def hardened(knob: Knob, value: float, amount: float) -> float:
    """A value moved towards harder (or, below zero, easier) tasks by a part of its range."""
    moved = value + knob.harder * amount * (knob.high - knob.low)
    moved = float(round(moved)) if knob.integer else moved
    return min(max(moved, knob.low), knob.high)


def counted(cell: Cell) -> str:
    """`3 of 60 valid, 92 % of 12 groups dead`."""
    text = f"{cell.valid} of {cell.n} valid"
    if not cell.groups:
        return text
    return f"{text}, {100 * cell.dead / cell.groups:.0f} % of {cell.groups} groups dead"


def in_shares(found: list[Signal], shares: list[float]) -> tuple[dict[str, float], list[str]]:
    """New shares as knobs, and those that change noticeably in words."""
    pairs = list(zip(found, shares, strict=True))
    return {signal.knob.name: share for signal, share in pairs}, [
        f"{signal.name}: {counted(signal.cell)}: share {signal.share:.3g} → {share:.3g}"
        for signal, share in pairs
        if abs(share - signal.share) > 5e-4
    ]


def summary(view: View) -> str:
    """The state of the version in force, in one sentence."""
    finished = standing(view)
    dev = pooled(finished.dev)
    return f"Version {finished.number}: {counted(dev)} on dev."
