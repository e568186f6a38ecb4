"""Looking at a run from anywhere: by its readable copies alone.

SQLite shares a ledger between processes of one machine only. The copies are plain files, whole as
soon as they are there, so a run on another machine of a shared file system can be watched too.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

from coevolve.core.files import read_regular

WORDS = {
    "base": "measuring the base policy on the gate",
    "clean": "measuring the base policy in the clean room",
    "train": "training",
    "dev": "measuring on dev",
    "gate": "measuring on the gate",
    "noise": "measuring the noise floor",
    "diagnose": "asking every diagnostic",
    "propose": "engineers propose",
    "backtest": "trying proposals before they are trained",
    "skill": "learning from the verdict",
    "diagnostics": "looking for diagnostics that explain it",
    "final": "measuring on the test split",
}
"""What a run does in a phase, for people."""


class Finished(NamedTuple):
    """A phase that is over."""

    place: str
    phase: str
    seconds: float


def finished_phases(folder: Path, known: set[Path]) -> list[Finished]:
    """Phases of a run that are not yet `known`, in order; they are added to it.

    So is what else lies beside them, lest it is read again.
    """
    found = []
    for pattern in ("[a-z]*/*.json", "[a-z]*/[0-9]*/*.json"):
        for path in folder.glob(pattern):
            if path in known or path.relative_to(folder).parts[0] == "files":
                continue
            try:
                value = json.loads(read_regular(path))
            except (OSError, ValueError):
                continue  # not a copy that is whole; it may be written again
            known.add(path)
            if is_copy(value, path, folder):
                finished = Finished(value["place"], value["phase"], value["seconds"])
                found.append((value["number"], finished))
    return [finished for _, finished in sorted(found)]


def is_copy(value: Any, path: Path, folder: Path) -> bool:
    """Whether a file is what the ledger writes of a phase, and not one that lies beside it."""
    return (
        isinstance(value, dict)
        and value.keys() >= {"number", "place", "phase", "seconds", "payload"}
        and isinstance(value["number"], int)
        and value["phase"] == path.stem
        and value["place"] == path.parent.relative_to(folder).as_posix()
    )
