"""Everything that can be wrong with the folder of a run, and what makes it whole again.

Invariant: it reads and never writes; a folder without a fault gives every reader what was recorded.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from coevolve.core.errors import LedgerError
from coevolve.core.names import typed
from coevolve.policies.models import weights_of
from coevolve.store.ledger import Ledger
from coevolve.store.lineage import Lineage, lineage_of
from coevolve.store.paths import Paths


class Fault(NamedTuple):
    """Something that is not what was recorded."""

    problem: str
    """What it is, by file and event, and how it is mended."""
    command: str = ""
    """What makes it again; empty where only a copy helps."""


class Checked(NamedTuple):
    """What was looked at, and what is wrong with it."""

    events: int
    files: int
    faults: list[Fault]


def fsck(folder: Path) -> Checked:
    """Check the chain of events, their payloads, the files that they seal, and checkpoints."""
    try:
        with Ledger.open(folder, broken=True, read_only=True) as ledger:
            return Checked(len(ledger.salvage()[0]), len(ledger.sums()), list(faults(ledger)))
    except LedgerError as error:
        return Checked(0, 0, [Fault(str(error))])


def faults(ledger: Ledger) -> Iterator[Fault]:
    folder, found = ledger.folder, ledger.faults()
    yield from map(Fault, found)
    damaged = ledger.damages()
    for one in damaged:
        yield Fault(one.words(folder), one.command)
    for path in ledger.stale():
        resume = typed("resume", folder)
        yield Fault(f"{path} is not a copy of its phase; `{resume}` writes it again", resume)
    if not found:
        try:
            yield from checkpoints(folder, lineage_of(ledger), {one.path for one in damaged})
        except LedgerError as error:
            yield Fault(str(error))


def checkpoints(folder: Path, lineage: Lineage, damaged: set[str]) -> Iterator[Fault]:
    """Weights that are not those that were recorded, where no file says so already."""
    begun, paths = lineage.begin, Paths(folder)
    if begun and begun.weights and weights_of(lineage.plan.policy) != begun.weights:
        yield Fault(
            f"the weights of {lineage.plan.policy} are not those that {folder} began with; put "
            "them back"
        )
    for node in lineage.nodes:
        if node.train is None or not (place := Path(paths.find(node.policy))).is_absolute():
            continue
        said = any((folder / path).is_relative_to(place) for path in damaged)
        retrain = typed("resume", folder, "--retrain")
        if not said and (not place.exists() or weights_of(str(place)) != node.train.weights):
            yield Fault(f"the checkpoint {place} is not what was recorded: `{retrain}`", retrain)
