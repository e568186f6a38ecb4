"""Whether readings tell good versions from bad ones: a stated statistic, and a permutation test.

The statistic is the AUC: the chance that a bad version reads more alarming than a good one. Its
p-value is the chance of so high an AUC, in any of all diagnostics tried together, if verdicts were
dealt to versions at random. A threshold lies between the good versions and the bad ones, and is
tried alike. Invariant: what means nothing passes with no more than that chance.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import combinations, pairwise
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata, spearmanr

from coevolve.core.seeds import derive
from coevolve.harness.diagnostic import Diagnostic, Direction
from coevolve.harness.version import Version

EXACT = 20_000
"""Ways of dealing verdicts up to which all of them are looked at."""
DRAWN = 9_999
"""Ways that are drawn where there are more."""
CLOSE = 1e-9

Readings = Mapping[int, float]
"""Values by version."""
Matrix = NDArray[np.float64]


class Separation(NamedTuple):
    """How well a diagnostic tells versions apart."""

    auc: float
    p_value: float
    good: int
    bad: int


def labels_of(versions: Sequence[Version]) -> dict[int, bool]:
    """Which versions turned out good: others may grow from them. Those not trained, or not judged
    yet, are left out."""
    judged = ("root", "kept", "pruned", "reverted")
    return {one.number: one.valid for one in versions if one.verdict in judged}


def separations(
    tried: Sequence[tuple[Readings, Direction]], labels: Mapping[int, bool], seed: int
) -> list[Separation]:
    """All diagnostics that are tried at once; each p-value knows of the others."""
    versions = sorted(labels)
    bad = np.array([[not labels[version] for version in versions]], dtype=np.float64)
    ranks, known = ranked(tried, versions)
    observed = areas(bad, ranks, known)[0]
    dealt = deals(len(versions), int(bad.sum()), seed)
    highest = areas(dealt, ranks, known).max(axis=1, initial=0.0)
    found = []
    for place, area in enumerate(observed):
        p_value = chance(highest, float(area), len(versions), int(bad.sum()))
        judged = bad[0][known[:, place] > 0]
        found.append(
            Separation(float(area), p_value, int((judged == 0).sum()), int((judged == 1).sum()))
        )
    return found


def chance(dealt: Matrix, observed: float, versions: int, bad: int) -> float:
    """How often a dealt value reaches the observed one, which is itself one way of dealing."""
    reached = int((dealt >= observed - CLOSE).sum())
    if comb(versions, bad) <= EXACT:
        return reached / len(dealt)
    return (reached + 1) / (len(dealt) + 1)


def least_p_value(labels: Mapping[int, bool]) -> float:
    """What the best diagnostic there could be would reach."""
    return 1 / comb(len(labels), sum(labels.values()))


def ranked(
    tried: Sequence[tuple[Readings, Direction]], versions: Sequence[int]
) -> tuple[Matrix, Matrix]:
    """Ranks of readings, the most alarming highest; and where there are any."""
    ranks = np.zeros((len(versions), len(tried)))
    known = np.zeros_like(ranks)
    for place, (readings, direction) in enumerate(tried):
        rows = [row for row, version in enumerate(versions) if version in readings]
        sign = 1.0 if direction == "above" else -1.0
        ranks[rows, place] = rankdata([sign * readings[versions[row]] for row in rows])
        known[rows, place] = 1.0
    return ranks, known


def areas(bad: Matrix, ranks: Matrix, known: Matrix) -> Matrix:
    """The AUC of every diagnostic (columns) for every way of dealing verdicts (rows)."""
    worse = bad @ known
    better = known.sum(axis=0) - worse
    pairs = worse * better
    wins = bad @ ranks - worse * (worse + 1) / 2
    found: Matrix = np.where(pairs > 0, wins / np.where(pairs > 0, pairs, 1.0), 0.5)
    return found


@lru_cache(maxsize=8)
def deals(versions: int, bad: int, seed: int) -> Matrix:
    """Ways of calling so many versions bad: all, or enough of them drawn at random."""
    if comb(versions, bad) <= EXACT:
        chosen = np.array(list(combinations(range(versions), bad)), dtype=np.int64)
    else:
        rng = np.random.default_rng(derive(seed, "deals", versions, bad))
        chosen = rng.random((DRAWN, versions)).argsort(axis=1)[:, :bad]
    found = np.zeros((len(chosen), versions))
    np.put_along_axis(found, chosen, 1.0, axis=1)
    return found


def alike(one: Readings, other: Readings) -> tuple[float, int]:
    """The rank correlation over the versions that both know, and how many these are; 0 where one
    of them is always the same."""
    both = sorted(one.keys() & other.keys())
    first, second = [one[version] for version in both], [other[version] for version in both]
    if len(set(first)) < 2 or len(set(second)) < 2:
        return 0.0, len(both)
    return float(spearmanr(first, second).statistic), len(both)


class Cut(NamedTuple):
    """A threshold and what it tells apart."""

    threshold: float
    gap: float
    """Share of bad versions beyond it, less the share of good ones."""


def best_cut(readings: Readings, labels: Mapping[int, bool], direction: Direction) -> Cut | None:
    """The threshold that tells most; of equal ones the most lenient. None without both kinds."""
    if {labels[version] for version in readings if version in labels} != {True, False}:
        return None
    cuts = [Cut(place, gap(readings, labels, direction, place)) for place in places(readings)]
    if direction == "above":
        cuts.reverse()
    return max(cuts, key=lambda cut: cut.gap, default=None)


def gap(
    readings: Readings, labels: Mapping[int, bool], direction: Direction, threshold: float
) -> float:
    """The share of bad versions beyond a threshold, less the share of good ones."""
    sign = 1 if direction == "above" else -1
    alarmed: dict[bool, list[bool]] = {True: [], False: []}
    for version, value in readings.items():
        if version in labels:
            alarmed[labels[version]].append(sign * value > sign * threshold)
    return float(np.mean(alarmed[False]) - np.mean(alarmed[True]))


def cut_p_value(
    readings: Readings, labels: Mapping[int, bool], direction: Direction, seed: int
) -> float:
    """The chance that the best threshold would tell as much if verdicts were dealt at random."""
    known = sorted(version for version in readings if version in labels)
    bad = [not labels[version] for version in known]
    values = np.array([readings[version] for version in known])
    sign = 1 if direction == "above" else -1
    beyond = np.array([sign * values > sign * place for place in places(readings)], dtype=float)
    dealt = deals(len(known), sum(bad), seed)
    of_bad = dealt @ beyond.T / sum(bad)
    of_good = (1 - dealt) @ beyond.T / (len(known) - sum(bad))
    reached = (of_bad - of_good).max(axis=1)
    cut = best_cut(readings, labels, direction)
    assert cut is not None
    return chance(reached, cut.gap, len(known), sum(bad))


def places(readings: Readings) -> list[float]:
    """Halfway between neighbouring readings."""
    values = sorted(set(readings.values()))
    return [(one + other) / 2 for one, other in pairwise(values)]


def with_threshold(
    diagnostic: Diagnostic, readings: Readings, labels: Mapping[int, bool]
) -> Diagnostic:
    """A diagnostic that had no threshold, with one that follows from its readings."""
    if diagnostic.warn is not None or diagnostic.critical is not None:
        return diagnostic
    cut = best_cut(readings, labels, diagnostic.direction)
    return diagnostic.model_copy(update={"warn": cut and cut.threshold})
