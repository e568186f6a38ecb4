"""A simulated trainee fitted to real rollouts, so that lessons resemble what really happens.

The likeliest parameters, given how many attempts succeeded and how many groups were dead, under
weak prior beliefs that keep what the rollouts do not tell near the middle.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from coevolve.core.errors import UserError
from coevolve.domains.knobs import Knobs
from coevolve.engineering.trainee import (
    WEIGHTS,
    Numbers,
    Trainee,
    chances,
    free,
    kinds,
    level,
    tied,
)
from coevolve.store.cells import Cell, merged

WIDTHS = {"skill": 3.0, "harder": 1.5, "slope": 3.0, "spread": 0.7}
"""Standard deviations of the prior beliefs; of the spread, in its logarithm, around 1.2."""


class Tried(NamedTuple):
    """What came of tasks from some knobs."""

    knobs: Knobs
    cells: Sequence[Cell]


class Design(NamedTuple):
    """All that was tried as one table: a row per kind of tasks."""

    names: list[str]
    """Of shares, then of slopes."""
    shares: int
    rows: Numbers
    """How much harder each parameter makes each row."""
    n: Numbers
    valid: Numbers
    groups: Numbers
    dead: Numbers
    attempts: Numbers


def fit(tried: Sequence[Tried]) -> Trainee:
    """The trainee that explains best what came of it."""
    design = laid_out(tried)
    start = np.zeros(2 + len(design.names))
    found = minimize(loss, start, args=(design,), method="L-BFGS-B")
    return trainee_of(found.x, design)


def trainee_of(values: Numbers, design: Design) -> Trainee:
    by_name = dict(zip(design.names, map(float, values[2:]), strict=True))
    return Trainee(
        skill=float(values[0]),
        spread=float(1.2 * np.exp(values[1])),
        harder={name: by_name[name] for name in design.names[: design.shares]},
        slopes={name: by_name[name] for name in design.names[design.shares :]},
    )


def loss(values: Numbers, design: Design) -> float:
    """Minus the log-likelihood of what was counted, and of the prior beliefs."""
    trainee = trainee_of(values, design)
    chance = chances(trainee, values[0] - design.rows @ values[2:])
    rate = np.clip(chance @ WEIGHTS, 1e-6, 1 - 1e-6)
    # Attempts at one task are alike: a group counts as one observation of the rate.
    weight = np.where(design.groups > 0, design.groups / np.maximum(design.n, 1), 1.0)
    told = weight * (design.valid * np.log(rate) + (design.n - design.valid) * np.log(1 - rate))
    attempts = design.attempts[:, None]
    dead = np.clip((chance**attempts + (1 - chance) ** attempts) @ WEIGHTS, 1e-6, 1 - 1e-6)
    told += np.where(
        design.groups > 0,
        design.dead * np.log(dead) + (design.groups - design.dead) * np.log(1 - dead),
        0.0,
    )
    widths = np.array(
        [WIDTHS["skill"], WIDTHS["spread"]]
        + [WIDTHS["harder"]] * design.shares
        + [WIDTHS["slope"]] * (len(design.names) - design.shares)
    )
    return float(-told.sum() + 0.5 * ((values / widths) ** 2).sum())


def laid_out(tried: Sequence[Tried]) -> Design:
    """Which parameters there are, and how each row depends on them."""
    shares: dict[str, None] = {}
    slopes: dict[str, None] = {}
    rows: list[dict[str, float]] = []
    counts = []
    for knobs, cells in tried:
        labels = [k.label[0] for k in knobs.space.knobs.values() if k.group and k.label]
        found = {tuple(c.labels.items()): c for c in merged(cells, list(dict.fromkeys(labels)))}
        for kind in kinds(knobs):
            cell = found.get(tuple(kind.labels.items()))
            if cell is None:
                continue
            row: dict[str, float] = {}
            for share in kind.shares:
                shares[share.name] = None
                row[share.name] = 1.0
            for knob in (*(k for s in kind.shares for k in tied(knobs, s)), *free(knobs)):
                slopes[knob.suffix] = None
                moved = level(knob, knobs[knob.name]) - level(knob, knob.default)
                row[knob.suffix] = row.get(knob.suffix, 0.0) + knob.harder * moved
            rows.append(row)
            attempts = cell.n / cell.groups if cell.groups else 1.0
            counts.append((cell.n, cell.valid, cell.groups, cell.dead, attempts))
    if not rows:
        raise UserError("there are no rollouts to fit a trainee to")
    names = [*shares, *slopes]
    table = np.array([[row.get(name, 0.0) for name in names] for row in rows])
    n, valid, groups, dead, tries = np.array(counts, dtype=np.float64).T
    return Design(names, len(shares), table, n, valid, groups, dead, tries)
