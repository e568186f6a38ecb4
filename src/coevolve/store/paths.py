"""The paths of a run: the one place that knows where things lie in its folder.

    ledger.db, files/, lock      the record (see ledger.py)
    base/gate, base/clean        the first policy on gate tasks, and in the clean room
    versions/NN/                 one version: job.json, result.json, and
        stage, dev, gate, clean,     its training, its rollouts, the clean room, probes of its
        probes                       checkpoint
    generations/NN/              the phases of proposing and testing
    branches/NN-NAME/            the first steps of versions that may come
    twins/NN/                    the first version again, with another seed
    noise/NN                     its checkpoint on the gate again, with other draws
    final/                       the test split
    skills/, diagnostics/        what the run follows, and has learned

Invariant: what is recorded of a place inside the folder is relative to it, so that a run can be
moved, copied and deleted like any folder.
"""

from pathlib import Path
from typing import NamedTuple

from coevolve.core.errors import UserError
from coevolve.core.files import HERE, name_in
from coevolve.core.names import typed


class Paths(NamedTuple):
    """The places of one run."""

    folder: Path

    def version(self, number: int) -> Path:
        return self.folder / version_place(number)

    def twin(self, number: int) -> Path:
        return self.folder / "twins" / f"{number:02d}"

    @property
    def branches(self) -> Path:
        return self.folder / "branches"

    def branch(self, generation: int, harness: str) -> Path:
        """Of a harness, by its digest."""
        return self.branches / f"{generation:02d}-{harness}"

    @property
    def base_gate(self) -> Path:
        return self.folder / "base" / "gate"

    def clean(self, version: int | None) -> Path:
        """A version, or the first policy, in the clean room."""
        place = self.folder / "base" if version is None else self.version(version)
        return place / "clean"

    def noise(self, name: str) -> Path:
        return self.folder / "noise" / name

    def probes(self, version: int | None, name: str) -> Path:
        """Of a version's checkpoint, or of the first policy."""
        place = self.folder / "base" if version is None else self.version(version)
        return place / "probes" / name

    @property
    def final(self) -> Path:
        return self.folder / "final"

    @property
    def skills(self) -> Path:
        return self.folder / "skills"

    @property
    def diagnostics(self) -> Path:
        return self.folder / "diagnostics"

    @property
    def grown(self) -> Path:
        """The grown diagnostics that runs beside each other share."""
        return self.folder.parent / "diagnostics"

    @property
    def library(self) -> Path:
        """The skills that runs beside each other share."""
        return self.folder.parent / "skills"

    def versions(self) -> list[tuple[int, Path]]:
        """The folders of all versions, in order."""
        found = (place for place in (self.folder / "versions").glob("*") if place.name.isdecimal())
        return sorted((int(place.name), place) for place in found)

    def name(self, policy: str) -> str:
        """A policy as it is recorded: relative where it lies in the run."""
        return name_in(self.folder, policy)

    def find(self, name: str) -> str:
        """A recorded policy as the path where it lies now."""
        return str(self.folder / name.removeprefix(HERE)) if name.startswith(HERE) else name

    def need(self, name: str) -> str:
        """The same, of a checkpoint that has to be there."""
        place = self.find(name)
        if name.startswith(HERE) and not Path(place).exists():
            raise UserError(
                f"the checkpoint {place} is gone; `{typed('resume', self.folder, '--retrain')}` "
                "trains it again, to the same weights where the stage is deterministic"
            )
        return place


def version_place(number: int) -> str:
    """Where the phases of a version are recorded."""
    return f"versions/{number:02d}"


def generation_place(number: int) -> str:
    """Where the phases of a generation are recorded."""
    return f"generations/{number:02d}"


RUN = "run"
"""Where phases are recorded that belong to no version."""
