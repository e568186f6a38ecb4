"""The versions of a run and the steps of their training, as rows for the evidence views.

Versions come from the ledger alone. A later tree gives the same rows with other parents; rounds are
a tree in which every version grows from the last one that was kept.
"""

import json
from pathlib import Path
from typing import Any

from coevolve.evidence.layout import version_folders
from coevolve.ledger.ledger import Ledger

Row = dict[str, Any]

VERSIONS = {
    "version": "INTEGER",
    "parent": "INTEGER",  # null: the policy that the run began with
    "verdict": "VARCHAR",  # kept or reverted; null while it is not judged
    "reason": "VARCHAR",
    "checkpoint": "VARCHAR",
    "engineer": "VARCHAR",  # whose knobs it was trained on
    "steps": "INTEGER",
    "stopped": "VARCHAR",  # why the watch ended the training early
    "rollouts": "BIGINT",
    "tokens": "BIGINT",
    "seconds": "DOUBLE",
}
"""Columns of the view `versions`."""

STEPS = {
    "version": "INTEGER", "step": "INTEGER", "loss": "DOUBLE", "grad_norm": "DOUBLE",
    "learning_rate": "DOUBLE", "reward": "DOUBLE", "reward_std": "DOUBLE", "valid": "DOUBLE",
    "optimal": "DOUBLE", "dead": "DOUBLE", "entropy": "DOUBLE", "kl": "DOUBLE", "drift": "DOUBLE",
    "length": "DOUBLE", "cut": "DOUBLE", "clipped": "DOUBLE", "logprob_gap": "DOUBLE",
    "logprob_gap_max": "DOUBLE", "tokens": "DOUBLE", "drawing_s": "DOUBLE", "seconds": "DOUBLE",
}  # fmt: skip
"""Columns of the view `steps`: one line of a stage's `steps.jsonl`."""


def versions_of(folder: Path) -> list[Row]:
    """One row per version, in order."""
    if not (folder / "ledger.db").is_file():
        return [_row(VERSIONS, {"version": version}) for version, _ in version_folders(folder)]
    with Ledger.open(folder) as ledger:
        phases = {
            (event.round, event.phase): event.payload
            for event in ledger.events("phase")
            if event.phase in ("train", "gate", "backtest")
        }
    numbers = {version for version, _ in version_folders(folder)}
    numbers |= {number for number, phase in phases if number is not None and phase == "train"}
    found: list[Row] = []
    parent: int | None = None
    for version in sorted(numbers):
        result = phases.get((version, "train"), {}).get("result", {})
        verdict = phases.get((version, "gate"))
        values = {
            **result,
            "version": version,
            "parent": parent,
            "verdict": verdict and ("kept" if verdict["keep"] else "reverted"),
            "reason": verdict and verdict["words"],
            "checkpoint": result.get("policy"),
            "engineer": phases.get((version - 1, "backtest"), {}).get("chosen", "start"),
        }
        found.append(_row(VERSIONS, values))
        if verdict and verdict["keep"]:
            parent = version
    return found


def steps_of(folder: Path) -> list[Row]:
    """The metrics of all steps of all versions; a line that was cut off ends its file."""
    found = []
    for version, place in version_folders(folder):
        file = (place if (place / "stage.json").is_file() else place / "stage") / "steps.jsonl"
        if not file.is_file():
            continue
        for line in file.read_text("utf-8", "replace").splitlines():
            try:
                values = json.loads(line)
            except ValueError:
                break
            found.append(_row(STEPS, {**values, "version": version}))
    return found


def _row(columns: dict[str, str], values: Row) -> Row:
    return {name: values.get(name) for name in columns}
