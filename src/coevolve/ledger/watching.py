"""Looking at a run from anywhere: by its readable copies alone.

SQLite shares a ledger between processes of one machine only. The copies are plain files, whole as
soon as they are there, so a run on another machine of a shared file system can be watched too.
"""

import json
from pathlib import Path
from typing import NamedTuple

WORDS = {
    "base": "measuring the base policy on the gate",
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

    round: int
    phase: str
    seconds: float


def finished_phases(folder: Path, known: set[Path]) -> list[Finished]:
    """Phases of a run that are not yet `known`, in order; they are added to it."""
    found = []
    for path in sorted((folder / "rounds").glob("[0-9]*/*.json")):
        if path not in known:
            value = json.loads(path.read_text("utf-8"))
            known.add(path)
            found.append((value["number"], value))
    return [
        Finished(value["round"], value["phase"], value["seconds"])
        for _, value in sorted(found, key=lambda pair: pair[0])
    ]
