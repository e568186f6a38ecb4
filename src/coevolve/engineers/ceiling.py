"""A ceiling of difficulty that only rises, as in RLVE, but without a window that follows it."""

from coevolve.engineers.base import View, change_knobs
from coevolve.engineers.signals import (
    counted,
    difficulty,
    hardened,
    signals,
    summary,
)
from coevolve.harness.proposal import Proposal
from coevolve.store.cells import Cell

SOLVED = 0.9
"""Rate from which the hardest tasks in use count as solved."""
ENOUGH = 16
"""Rollouts below which a rate opens nothing."""
STEP = 0.1
"""Part of its range by which a difficulty knob rises."""


class CeilingEngineer:
    """Where the hardest tasks in use are solved, harder ones are added; nothing ever falls.

    The members of a group are taken to be listed from easy to hard: once the last one in use is
    solved, the next opens with the mean share. Difficulty knobs rise where their tasks are solved.
    """

    name = "ceiling"

    def propose(self, view: View, seed: int) -> list[Proposal]:
        knobs: dict[str, float] = {}
        lines = []
        for group, members in view.space.groups.items():
            found = signals(view, group)
            last = found[-1]
            later = members[members.index(last.knob.name) + 1 :]
            if later and solved(last.cell):
                knobs |= {name: view.incumbent[name] for name in members}
                knobs[later[0]] = 1 / len(found)  # becomes the mean share once scaled
                lines.append(f"{last.name}: {counted(last.cell)}: {later[0]} opens")
        for knob, name, cell in difficulty(view):
            value = view.incumbent[knob.name]
            harder = hardened(knob, value, STEP)
            if solved(cell) and harder != value:
                knobs[knob.name] = harder
                lines.append(f"{name}: {counted(cell)}: {knob.name} {value:.3g} → {harder:.3g}")
        nothing = f"nothing is solved yet ({100 * SOLVED:.0f} % of at least {ENOUGH} rollouts)"
        rose = "; ".join(lines) or nothing
        return [change_knobs(knobs, f"{summary(view)} {rose}.")]


def solved(cell: Cell) -> bool:
    return cell.n >= ENOUGH and cell.rate >= SOLVED
