"""Which questions of the grid are worth a trial: few enough for the versions there are.

A grid of hundreds would find something in any ten versions by chance, and its trial, which knows
that, could accept nothing. So the grid is first cut down to those that differ most firmly between
versions, without looking at any verdict, which leaves the trial's chance of an error as it is.
"""

from math import comb

import numpy as np

from coevolve.diagnostics.grid import grid
from coevolve.diagnostics.health import Diagnosis
from coevolve.diagnostics.replay import halves, replay
from coevolve.diagnostics.separation import Readings, alike
from coevolve.diagnostics.suite import load_suite
from coevolve.diagnostics.trials import Occasion
from coevolve.harness.diagnostic import Diagnostic

MOST = 100
"""Questions in one trial, however many versions there are."""


def from_grid(occasion: Occasion) -> list[Diagnostic]:
    """Diagnostics to try, proposed by nobody; empty where there are too few versions to tell."""
    good, rule = sum(occasion.labels.values()), occasion.rule
    room = rule.level * comb(len(occasion.labels), good) / (1 + occasion.earlier)
    most = min(MOST, int(room) // 2)
    if most < 1 or good in (0, len(occasion.labels)):
        return []
    suite = load_suite(occasion.folder)
    with Diagnosis(occasion.folder, suite, occasion.bounds, blind=True) as diagnosis:
        sides = grid(diagnosis)
        known = [replay(diagnosis, one).readings for one in suite.of(diagnosis.domains())]
        asked = {one.name: replay(diagnosis, one).readings for one in sides[::2]}
    whole = [one for one in sides[::2] if len(asked[one.name]) == len(occasion.labels)]
    firm = firmness(whole, occasion)
    chosen: list[str] = []
    for name in sorted(firm, key=lambda name: (-firm[name], name)):
        others = [*known, *(asked[other] for other in chosen)]
        new = not any(abs(alike(asked[name], other)[0]) >= rule.most_alike for other in others)
        if len(chosen) < most and new:
            chosen.append(name)
    pairs = {one.name: (one, other) for one, other in zip(sides[::2], sides[1::2], strict=True)}
    return [one for name in chosen for one in pairs[name]]


def firmness(diagnostics: list[Diagnostic], occasion: Occasion) -> dict[str, float]:
    """How well two halves of the tasks agree on how versions differ: the mean correlation."""
    cut = halves(occasion.folder, diagnostics, occasion.rule.splits, occasion.seed, occasion.bounds)
    return {
        one.name: float(np.mean([agreement(half[one.name], rest[one.name]) for half, rest in cut]))
        for one in diagnostics
    }


def agreement(one: Readings, other: Readings) -> float:
    """The correlation over versions; 0 where there is none, or where halves say the very same: what
    is not asked of tasks, such as steps, is not tried by halving them."""
    both = sorted(one.keys() & other.keys())
    values = np.array([[half[version] for version in both] for half in (one, other)])
    if len(both) < 2 or np.ptp(values, axis=1).min() == 0 or (values[0] == values[1]).all():
        return 0.0
    return float(np.corrcoef(values)[0, 1])
