"""Shares by a bandit over categories, after SEC."""

import math

from coevolve.engineers.base import Past, View, change_knobs
from coevolve.engineers.signals import Signal, evidence, signals, summary
from coevolve.harness.proposal import Proposal
from coevolve.store.cells import Cell

MEMORY = 0.5
"""What a category's value keeps of itself at each round."""
TEMPERATURE = 0.2
"""In units of reward: two categories whose values differ by this get shares that differ e-fold."""


class BanditEngineer:
    """Boltzmann shares of the categories' values.

    The value of a category is the spread of rewards within its groups, as a moving average over all
    rounds. SEC takes the mean absolute advantage, which is in proportion where groups are alike.
    """

    name = "bandit"

    def propose(self, view: View, seed: int) -> list[Proposal]:
        knobs: dict[str, float] = {}
        lines = []
        for group in view.space.groups:
            found = signals(view, group)
            values = filled([moving_value(view.history, signal) for signal in found])
            heights = [math.exp((value - max(values)) / TEMPERATURE) for value in values]
            for signal, value, height in zip(found, values, heights, strict=True):
                share = knobs[signal.knob.name] = height / sum(heights)
                if len(found) > 1:
                    lines.append(
                        f"{signal.name}: spread {value:.2g} (n = {signal.cell.n}): share "
                        f"{signal.share:.3g} → {share:.3g}"
                    )
        told = "; ".join(lines) or "no choice"
        explanation = f"{summary(view)} Shares by reward spread within groups: {told}."
        return [change_knobs(knobs, explanation)]


def moving_value(history: tuple[Past, ...], signal: Signal) -> float | None:
    """The moving average of a category's spread; None if it was never tried."""
    value = None
    for finished in history:
        cell = evidence(finished, signal.knob.label)
        if signal.knob.label and cell.n:
            now = spread(cell)
            value = now if value is None else MEMORY * value + (1 - MEMORY) * now
    return value


def spread(cell: Cell) -> float:
    """Standard deviation of rewards within groups; without groups, that of valid or not."""
    variance = cell.spread / cell.groups if cell.groups else cell.rate * (1 - cell.rate)
    return math.sqrt(max(variance, 0.0))


def filled(values: list[float | None]) -> list[float]:
    """Categories that were never tried take the mean of the others."""
    known = [value for value in values if value is not None]
    mean = sum(known) / len(known) if known else 0.0
    return [mean if value is None else value for value in values]
