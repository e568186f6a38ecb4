"""Rules of knobs that anything cleverer has to beat: some look at nothing, some are others' own.

A rule gives the knobs that it would change, and says why; `registry.RuleEngineer` proposes them.
"""

import math

from coevolve.core.seeds import derive
from coevolve.engineers.base import Past, View
from coevolve.engineers.signals import (
    Ruling,
    Signal,
    counted,
    difficulty,
    evidence,
    hardened,
    in_shares,
    signals,
    standing,
)
from coevolve.store.cells import Cell

EVEN = 0.2
"""Part of each group that `learnability` shares out evenly, so that nothing dies."""
PRIOR = 8
"""Rollouts that the rate of the whole group counts as, in the rate of each member."""
MEMORY = 0.5
"""What a category's value keeps of itself at each round, for the bandit."""
TEMPERATURE = 0.2
"""In units of reward: two categories whose values differ by this get shares that differ e-fold."""
SOLVED = 0.9
"""Rate from which the hardest tasks in use count as solved, below the ceiling."""
ENOUGH = 16
"""Rollouts below which a rate opens nothing."""
RISE = 0.1
"""Part of its range by which a difficulty knob rises with the ceiling."""
TARGET = 0.5
"""Success rate at which a yes/no reward has the most spread."""
STEP = 0.2
"""Part of its range that a difficulty knob moves at most towards the target."""
GAIN = 2.0
"""Steepness of the step in the distance from the target."""
TILT = 4.0
"""How strongly shares lean towards tasks that are harder, or easier, than the mean."""


def fixed(view: View, seed: int) -> Ruling:
    """Keeps the incumbent, whatever happens."""
    return {}, "The knobs stay as they are."


def random(view: View, seed: int) -> Ruling:
    """Draws all knobs at random, without a look at the evidence."""
    knobs = view.space.random(derive(seed, "random engineer", view.last.number))
    return dict(knobs), f"All {len(knobs)} knobs are drawn at random."


def uniform(view: View, seed: int) -> Ruling:
    """Equal shares for all members of a group that are in use, now or by default."""
    knobs: dict[str, float] = {}
    lines = []
    for group, members in view.space.groups.items():
        used = [n for n in members if view.incumbent[n] > 0 or view.space.knobs[n].default > 0]
        knobs |= {name: 1 / len(used) if name in used else 0.0 for name in members}
        lines.append(f"{len(used)} of {group} get {1 / len(used):.3g} each")
    return knobs, f"Equal shares: {'; '.join(lines) or 'no groups'}."


def learnability(view: View, seed: int) -> Ruling:
    """Shares in proportion to p(1 - p), p the success rate of the tasks a share stands for: tasks
    that sometimes succeed teach most.

    A rate with few rollouts is drawn towards the rate of the group, so that no weight is zero.
    """
    knobs: dict[str, float] = {}
    lines = []
    for group in view.space.groups:
        found = signals(view, group, closed=True)
        cells = [signal.cell for signal in found]
        n, valid = sum(cell.n for cell in cells), sum(cell.valid for cell in cells)
        group_rate = (valid + 1) / (n + 2)
        rates = [(cell.valid + PRIOR * group_rate) / (cell.n + PRIOR) for cell in cells]
        weights = [rate * (1 - rate) for rate in rates]
        for signal, weight in zip(found, weights, strict=True):
            share = EVEN / len(found) + (1 - EVEN) * (weight / sum(weights))
            knobs[signal.knob.name] = share
            if len(found) > 1:
                lines.append(f"{signal.name} ({counted(signal.cell)}) gets {share:.3g}")
    return knobs, f"Shares by p(1 - p): {'; '.join(lines) or 'no choice'}."


def bandit(view: View, seed: int) -> Ruling:
    """Boltzmann shares of the categories' values, after SEC.

    The value of a category is the spread of rewards within its groups, as a moving average over all
    rounds. SEC takes the mean absolute advantage, which is in proportion where groups are alike.
    Categories that were never tried take the mean of the others.
    """
    knobs: dict[str, float] = {}
    lines = []
    for group in view.space.groups:
        found = signals(view, group, closed=True)
        tried = [moving_value(view.history, signal) for signal in found]
        known = [value for value in tried if value is not None]
        mean = sum(known) / len(known) if known else 0.0
        values = [mean if value is None else value for value in tried]
        heights = [math.exp((value - max(values)) / TEMPERATURE) for value in values]
        for signal, value, height in zip(found, values, heights, strict=True):
            share = knobs[signal.knob.name] = height / sum(heights)
            if len(found) > 1:
                lines.append(
                    f"{signal.name}: spread {value:.2g} (n = {signal.cell.n}): share "
                    f"{signal.share:.3g} → {share:.3g}"
                )
    return knobs, f"Shares by reward spread within groups: {'; '.join(lines) or 'no choice'}."


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


def ceiling(view: View, seed: int) -> Ruling:
    """Where the hardest tasks in use are solved, harder ones are added; nothing ever falls. It is
    the ceiling of RLVE, but without a window that follows it.

    The members of a group are taken to be listed from easy to hard: once the last one in use is
    solved, the next opens with the mean share. Difficulty knobs rise where their tasks are solved.
    """
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
        harder = hardened(knob, value, RISE)
        if solved(cell) and harder != value:
            knobs[knob.name] = harder
            lines.append(f"{name}: {counted(cell)}: {knob.name} {value:.3g} → {harder:.3g}")
    nothing = f"nothing is solved yet ({100 * SOLVED:.0f} % of at least {ENOUGH} rollouts)"
    return knobs, f"{'; '.join(lines) or nothing}."


def solved(cell: Cell) -> bool:
    return cell.n >= ENOUGH and cell.rate >= SOLVED


def target(view: View, seed: int) -> Ruling:
    """Above a target success rate everything becomes harder, below it easier, in proportion, as in
    AdaRFT.

    All difficulty knobs move by the same part of their range, and shares lean towards tasks with
    less success when above the target, with more when below.
    """
    cell = evidence(standing(view))
    if not cell.n:
        return {}, "Nothing was tried (n = 0): no change."
    push = math.tanh(GAIN * (cell.rate - TARGET))
    moved = [knob for knob, _, _ in difficulty(view)]
    knobs = {k.name: hardened(k, view.incumbent[k.name], STEP * push) for k in moved}
    way = "harder" if push > 0 else "easier"
    lines = [
        f"{counted(cell)} against a target of {TARGET:g}: {len(moved)} difficulty knobs go "
        f"{way} by {STEP * abs(push):.3f} of their range"
    ]
    for group in view.space.groups:
        found = signals(view, group)
        shares, changes = in_shares(found, leaning(found, push))
        knobs |= shares
        lines += changes
    return knobs, f"{'; '.join(lines)}."


def leaning(found: list[Signal], push: float) -> list[float]:
    """Shares that lean away from success where `push` is above zero; unseen tasks count as mean."""
    n, valid = (sum(getattr(s.cell, field) for s in found) for field in ("n", "valid"))
    mean = valid / n if n else 0.0
    weights = [
        s.share * math.exp(-TILT * push * (s.cell.rate - mean if s.cell.n else 0.0)) for s in found
    ]
    return [weight / sum(weights) for weight in weights]
