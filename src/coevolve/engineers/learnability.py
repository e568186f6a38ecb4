"""Shares by learnability: tasks that sometimes succeed teach most."""

from coevolve.engineers.base import View, change_knobs
from coevolve.engineers.signals import Signal, counted, signals, summary
from coevolve.harness.proposal import Proposal

EVEN = 0.2
"""Part of each group that is shared out evenly, so that nothing dies."""
PRIOR = 8
"""Rollouts that the rate of the whole group counts as, in the rate of each member."""


class LearnabilityEngineer:
    """Shares in proportion to p(1 - p), p the success rate of the tasks a share stands for.

    A rate with few rollouts is drawn towards the rate of the group.
    """

    name = "learnability"

    def propose(self, view: View, seed: int) -> list[Proposal]:
        knobs: dict[str, float] = {}
        lines = []
        for group in view.space.groups:
            found = signals(view, group)
            weights = learnability(found)
            for signal, weight in zip(found, weights, strict=True):
                share = EVEN / len(found) + (1 - EVEN) * weight
                knobs[signal.knob.name] = share
                if len(found) > 1:
                    lines.append(f"{signal.name} ({counted(signal.cell)}) gets {share:.3g}")
        explanation = f"{summary(view)} Shares by p(1 - p): {'; '.join(lines) or 'no choice'}."
        return [change_knobs(knobs, explanation)]


def learnability(found: list[Signal]) -> list[float]:
    """p(1 - p) of each signal, scaled to sum to one; never zero, since every rate has a prior."""
    cells = [signal.cell for signal in found]
    n, valid = sum(cell.n for cell in cells), sum(cell.valid for cell in cells)
    group_rate = (valid + 1) / (n + 2)
    rates = [(cell.valid + PRIOR * group_rate) / (cell.n + PRIOR) for cell in cells]
    weights = [rate * (1 - rate) for rate in rates]
    total = sum(weights)
    return [weight / total for weight in weights]
