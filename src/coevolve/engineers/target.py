"""Difficulty that follows a target success rate, as in AdaRFT."""

import math

from coevolve.engineers.base import View, change_knobs
from coevolve.engineers.signals import (
    Signal,
    counted,
    difficulty,
    evidence,
    hardened,
    signals,
    standing,
    summary,
    told,
)
from coevolve.harness.proposal import Proposal

TARGET = 0.5
"""Success rate at which a yes/no reward has the most spread."""
STEP = 0.2
"""Part of its range that a difficulty knob moves at most."""
GAIN = 2.0
"""Steepness of the step in the distance from the target."""
TILT = 4.0
"""How strongly shares lean towards tasks that are harder, or easier, than the mean."""


class TargetEngineer:
    """Above the target rate everything becomes harder, below it easier, in proportion.

    All difficulty knobs move by the same part of their range, and shares lean towards tasks with
    less success when above the target, with more when below.
    """

    name = "target"

    def propose(self, view: View, seed: int) -> list[Proposal]:
        cell = evidence(standing(view))
        if not cell.n:
            return [Proposal(words=f"{summary(view)} Nothing was tried (n = 0): no change.")]
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
            for signal, share in zip(found, leaning(found, push), strict=True):
                knobs[signal.knob.name] = share
                if abs(share - signal.share) > 5e-4:
                    lines.append(told(signal, share))
        return [change_knobs(knobs, f"{summary(view)} {'; '.join(lines)}.")]


def leaning(found: list[Signal], push: float) -> list[float]:
    """Shares that lean away from success where `push` is above zero; unseen tasks count as mean."""
    n, valid = (sum(getattr(s.cell, field) for s in found) for field in ("n", "valid"))
    mean = valid / n if n else 0.0
    weights = [
        s.share * math.exp(-TILT * push * (s.cell.rate - mean if s.cell.n else 0.0)) for s in found
    ]
    return [weight / sum(weights) for weight in weights]
