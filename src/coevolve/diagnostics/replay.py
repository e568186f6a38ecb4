"""Diagnostics asked of past versions, and asked again of halves of their tasks."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from coevolve.core.errors import EvidenceError
from coevolve.core.seeds import derive
from coevolve.diagnostics.health import Diagnosis, readings_of
from coevolve.diagnostics.locked import Bounds
from coevolve.diagnostics.separation import alike
from coevolve.diagnostics.suite import Suite
from coevolve.harness.diagnostic import Diagnostic, Finding


class Replayed(NamedTuple):
    """What a diagnostic says of all versions, or why it says nothing."""

    readings: dict[int, float]
    error: str = ""


def replay(diagnosis: Diagnosis, diagnostic: Diagnostic) -> Replayed:
    """What it would have said of every version there is. Only SQL that came with the program runs
    outside the locked connection."""
    whole = diagnostic.model_copy(update={"since": 0})
    try:
        found = readings_of(whole, diagnosis.ask(whole, whole.sql))
    except EvidenceError as error:
        return Replayed({}, str(error))
    return Replayed({one.version: one.value for one in found if one.n >= whole.least})


def values_of(finding: Finding) -> dict[int, float]:
    return {reading.version: reading.value for reading in finding.readings}


Halves = tuple[dict[str, dict[int, float]], dict[str, dict[int, float]]]
"""Readings by name of a diagnostic, of one half of the tasks and of the other."""


def halves(
    folder: Path, diagnostics: Sequence[Diagnostic], splits: int, seed: int, bounds: Bounds | None
) -> list[Halves]:
    """What halves of the tasks say; a hash of their ids halves them, anew for each split."""

    def ask(condition: str) -> dict[str, dict[int, float]]:
        with Diagnosis(folder, Suite({}), bounds, condition, blind=True) as diagnosis:
            return {one.name: replay(diagnosis, halved(one)).readings for one in diagnostics}

    found = []
    for split in range(splits if diagnostics else 0):
        salt = f"{derive(seed, 'half', split):016x}"
        test = f"hash('{salt}' || task_id) % 2 = "
        found.append((ask(f"{test}0"), ask(f"{test}1")))
    return found


def stabilities(
    folder: Path, diagnostics: Sequence[Diagnostic], splits: int, seed: int, bounds: Bounds | None
) -> dict[str, float]:
    """For each diagnostic the mean rank correlation, over versions, of what two halves of the tasks
    say."""
    cut = halves(folder, diagnostics, splits, seed, bounds)
    return {
        one.name: sum(alike(first[one.name], second[one.name])[0] for first, second in cut) / splits
        for one in diagnostics
    }


def halved(diagnostic: Diagnostic) -> Diagnostic:
    """Half of the tasks need only half of the n."""
    return diagnostic.model_copy(update={"least": max(1, diagnostic.least // 2)})
