"""What a run is made of, and where it stands between rounds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from coevolve.domains.base import Domain
from coevolve.domains.knobs import Knobs
from coevolve.engineers.base import Engineer, Round
from coevolve.engines.base import Engine, Observe
from coevolve.evolution.measuring import Measuring
from coevolve.evolution.supervision import Supervision
from coevolve.harness.experiment import Experiment
from coevolve.ledger.ledger import Ledger


class Measured(NamedTuple):
    """A checkpoint and its results on the gate."""

    policy: str
    gate: Path
    """Its gate rollouts."""
    valid: int
    """How many of them."""


class Standing(NamedTuple):
    """Where a run stands between rounds."""

    policy: str
    """The checkpoint in force."""
    gate: Path
    """Its gate rollouts."""
    best: Measured
    """The best so far, the base policy included: many small falls must not add up."""
    knobs: Knobs
    """What the next round trains on."""
    author: str = "start"
    words: str = ""
    """What the engineer of these knobs said of them."""
    note: str = ""
    """What a person asked for when the round was completed."""
    history: tuple[Round, ...] = ()


def quiet(line: str) -> None:
    """Says nothing."""


@dataclass
class Run:
    """The parts of one run."""

    experiment: Experiment
    ledger: Ledger
    domain: Domain
    engine: Engine
    engineers: Callable[[str], Mapping[str, Callable[[], Engineer]]]
    """How to make those of a checkpoint."""
    measuring: Measuring
    observe: Observe | None = None
    say: Callable[[str], None] = quiet
    supervision: Supervision = field(init=False)

    def __post_init__(self) -> None:
        self.supervision = Supervision(self.experiment, self.ledger, lambda line: self.say(line))

    def folder(self, number: int, name: str) -> Path:
        return self.ledger.folder / "rounds" / f"{number:02d}" / name
