"""Thresholds that follow from readings: between the good versions and the bad ones."""

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from coevolve.diagnostics.separation import Direction, Readings, chance, deals
from coevolve.harness.diagnostic import Diagnostic


class Cut(NamedTuple):
    """A threshold and what it tells apart."""

    threshold: float
    told: float
    """Share of bad versions beyond it, less the share of good ones."""


def best_cut(readings: Readings, labels: Mapping[int, bool], direction: Direction) -> Cut | None:
    """The threshold that tells most; of equal ones the most lenient. None without both kinds."""
    if not both(readings, labels):
        return None
    cuts = [Cut(place, told(readings, labels, direction, place)) for place in places(readings)]
    if direction == "above":
        cuts.reverse()
    return max(cuts, key=lambda cut: cut.told, default=None)


def told(
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
    return chance(reached, cut.told, len(known), sum(bad))


def places(readings: Readings) -> list[float]:
    """Halfway between neighbouring readings."""
    values = sorted(set(readings.values()))
    return [(one + other) / 2 for one, other in pairwise(values)]


def both(readings: Readings, labels: Mapping[int, bool]) -> bool:
    return {labels[version] for version in readings if version in labels} == {True, False}


def with_threshold(
    diagnostic: Diagnostic, readings: Readings, labels: Mapping[int, bool]
) -> Diagnostic:
    """A diagnostic that had no threshold, with one that follows from its readings."""
    if diagnostic.warn is not None or diagnostic.critical is not None:
        return diagnostic
    cut = best_cut(readings, labels, diagnostic.direction)
    return diagnostic.model_copy(update={"warn": cut and cut.threshold})
