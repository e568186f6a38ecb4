"""What a tree of versions is made of, and where it stands."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coevolve.core.rollout import Rollout
from coevolve.core.seeds import derive
from coevolve.engineers.trainer import Trainer
from coevolve.evidence.health import Diagnosis, Health
from coevolve.evolution.best import Best, best_of, rate_of, strongest
from coevolve.evolution.deciding import base_place
from coevolve.evolution.growing import Grow, Grown, Order, grown, place_order
from coevolve.evolution.measuring import Measuring
from coevolve.evolution.run import quiet
from coevolve.evolution.supervision import Supervision
from coevolve.harness.evolution import Evolution
from coevolve.harness.harness import Harness
from coevolve.harness.version import Version
from coevolve.ledger.ledger import Ledger


@dataclass
class Tree:
    """The parts of a run, and the versions that it has so far."""

    evolution: Evolution
    ledger: Ledger
    measuring: Measuring
    trainers: Callable[[str], Mapping[str, Callable[[], Trainer]]]
    """How to make those of a checkpoint."""
    grow: Grow
    skills: Path
    """Where skills are kept."""
    say: Callable[[str], None] = quiet
    versions: list[Version] = field(default_factory=list)
    floor: float = 0.0
    """What a version has to gain beyond."""
    diagnosed: dict[int, int] = field(default_factory=dict)
    """Under which number the diagnosis behind a version is recorded."""
    failures: int = 0
    """Generations in a row that brought nothing to keep."""
    note: str = ""
    """What a person asked for when versions were completed."""
    supervision: Supervision = field(init=False)

    def __post_init__(self) -> None:
        self.supervision = Supervision(self.evolution, self.ledger, lambda line: self.say(line))

    def folder(self, number: int) -> Path:
        return self.ledger.folder / "rounds" / f"{number:02d}"

    def train(self, orders: Mapping[Path, Order]) -> None:
        """Have versions grown, each in its folder; those that are, are left alone."""
        waiting = [folder for folder in orders if grown(folder) is None]
        for folder in waiting:
            place_order(folder, orders[folder])
        if waiting:
            self.grow(waiting)

    def order(self, number: int, harness: Harness, twin: int = 0) -> Order:
        """All versions share a seed: they differ by their patch. Twins differ by their seed."""
        seed = derive(self.evolution.seed, "version", *([twin] if twin else []))
        return Order(number=number, evolution=self.evolution, harness=harness, seed=seed)

    def grown(self, number: int) -> Grown:
        found = grown(self.folder(number))
        assert found is not None
        return found

    def policy(self, number: int) -> str:
        result: str = self.recorded(number, "train")["result"]["policy"]
        return result

    def gate(self, number: int) -> list[Rollout]:
        """The gate rollouts of a version, read back."""
        place = self.folder(number) / "gate"
        return self.measuring.measure(self.policy(number), self.measuring.gate, place)

    def recorded(self, number: int, phase: str) -> dict[str, Any]:
        found = self.ledger.recorded(number, phase)
        assert found is not None
        return found

    def health(self) -> Health:
        """What all diagnostics say of the versions that there are now."""
        with Diagnosis(self.ledger.folder) as diagnosis:
            return diagnosis.health()

    def rate(self, number: int) -> float:
        """The valid rate of a version on gate tasks."""
        return rate_of(self.recorded(number, "gate"))

    @property
    def weights(self) -> str:
        """A hash of those that every version is trained from."""
        return str(self.recorded(0, "hashes")["policy"])

    @property
    def trained(self) -> list[Version]:
        return [version for version in self.versions if version.verdict != "rejected"]

    @property
    def base(self) -> dict[str, Any]:
        """How the policy before any training was measured."""
        return self.recorded(0, "base")

    def base_gate(self) -> list[Rollout]:
        """The gate rollouts of the policy before any training, read back."""
        place = base_place(self.ledger)
        return self.measuring.measure(self.evolution.policy, self.measuring.gate, place)

    @property
    def valid_gates(self) -> dict[int, dict[str, Any]]:
        """What the gate recorded of every valid version."""
        numbers = [version.number for version in self.versions if version.valid]
        return {number: self.recorded(number, "gate") for number in numbers}

    @property
    def strongest(self) -> Version:
        """The valid version that others grow from, whether or not it is better than the base."""
        return self.versions[strongest(self.valid_gates)[0]]

    @property
    def best(self) -> Best:
        """What the run would end with now."""
        return best_of(self.base, self.valid_gates)

    @property
    def best_policy(self) -> str:
        number = self.best.version
        return self.evolution.policy if number is None else self.policy(number)
