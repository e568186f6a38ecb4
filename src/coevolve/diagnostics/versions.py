"""The versions of a run and the steps of their training, as rows for the evidence views.

Versions come from the ledger alone.
"""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from coevolve.store.layout import version_folders
from coevolve.store.ledger import Ledger
from coevolve.store.lineage import Node, lineage_of

Row = dict[str, Any]

VERSIONS = {
    "version": "INTEGER",
    "parent": "INTEGER",  # null: the policy that the run began with
    "verdict": "VARCHAR",  # root, kept, pruned, reverted; null while it is not judged
    "checkpoint": "VARCHAR",
    "engineer": "VARCHAR",  # whose patch it was trained under
    "factor": "VARCHAR",  # what the patch changed; null: nothing
    "temperature": "DOUBLE",  # that rollouts were drawn at, the mean of first and last step
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
    "optimal": "DOUBLE", "unjudged": "DOUBLE", "dead": "DOUBLE", "entropy": "DOUBLE",
    "kl": "DOUBLE", "drift": "DOUBLE", "length": "DOUBLE", "cut": "DOUBLE", "clipped": "DOUBLE",
    "logprob_gap": "DOUBLE", "logprob_gap_max": "DOUBLE", "importance_ratio": "DOUBLE",
    "left_out": "DOUBLE", "tokens": "DOUBLE", "drawing_s": "DOUBLE",
    "seconds": "DOUBLE",
}  # fmt: skip
"""Columns of the view `steps`: one line of a stage's `steps.jsonl`."""


def versions_of(folder: Path) -> list[Row]:
    """One row per version, in order. The `reason` of its verdict is beside the columns: it may
    tell of the gate, so that people read it and no view has it."""
    none = {**_row(VERSIONS, {}), "reason": None}
    if not (folder / "ledger.db").is_file():
        return [{**none, "version": version} for version, _ in version_folders(folder)]
    with Ledger.open(folder) as ledger:
        known = {node.number: row_of(node) for node in lineage_of(ledger).nodes}
    begun = {number: {**none, "version": number} for number, _ in version_folders(folder)}
    return [row for _, row in sorted((begun | known).items())]


def row_of(node: Node) -> Row:
    """A version as a row."""
    version, recipe = node.version, node.version.harness.recipe
    result = node.train.result.model_dump(mode="json") if node.train else {}
    values = {
        **result,
        "version": version.number,
        "parent": version.parent,
        "verdict": version.verdict,
        "checkpoint": result.get("policy"),
        "engineer": version.author,
        "factor": version.patch.factor if version.patch else None,
        "temperature": (recipe.temperature + (recipe.temperature_end or recipe.temperature)) / 2,
    }
    return {**_row(VERSIONS, values), "reason": version.words or None}


def step_files(folder: Path) -> list[tuple[int, Path]]:
    """Where the metrics of each version lie, if it has any."""
    return [
        (version, (place if (place / "stage.json").is_file() else place / "stage") / "steps.jsonl")
        for version, place in version_folders(folder)
    ]


def steps_of(folder: Path, without: Collection[Path] = ()) -> list[Row]:
    """The metrics of all steps of all versions; a line that was cut off ends its file."""
    found = []
    for version, file in step_files(folder):
        if file in without or not file.is_file():
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
