"""The versions of a run and the steps of their training, as rows for the evidence views.

Versions come from the ledger alone. A tree records the parent of each; rounds are a tree in which
every version grows from the last one that was kept.
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
    "verdict": "VARCHAR",  # root, kept, pruned, reverted, rejected; null while it is not judged
    "checkpoint": "VARCHAR",
    "engineer": "VARCHAR",  # whose patch it was trained under
    "factor": "VARCHAR",  # what the patch changed
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
    "logprob_gap_max": "DOUBLE", "left_out": "DOUBLE", "tokens": "DOUBLE", "drawing_s": "DOUBLE",
    "seconds": "DOUBLE",
}  # fmt: skip
"""Columns of the view `steps`: one line of a stage's `steps.jsonl`."""


def versions_of(folder: Path) -> list[Row]:
    """One row per version, in order. The `reason` of its verdict is beside the columns: it may
    tell of the gate, so that people read it and no view has it."""
    if not (folder / "ledger.db").is_file():
        none = {**_row(VERSIONS, {}), "reason": None}
        return [{**none, "version": version} for version, _ in version_folders(folder)]
    with Ledger.open(folder) as ledger:
        phases = {
            (event.round, event.phase): event.payload
            for event in ledger.events("phase")
            if event.phase in ("patch", "backtest", "train", "gate")
        }
    numbers = {version for version, _ in version_folders(folder)}
    numbers |= {number for number, phase in phases if number is not None and phase == "train"}
    found: list[Row] = []
    parent: int | None = None
    for version in sorted(numbers):
        of = {phase: payload for (number, phase), payload in phases.items() if number == version}
        result, gate = of.get("train", {}).get("result", {}), of.get("gate")
        lineage = (
            grown_of(of) if "patch" in of
            else rounds_of(gate, parent, phases.get((version - 1, "backtest"), {}))
        )  # fmt: skip
        values = {**result, "version": version, "checkpoint": result.get("policy"), **lineage}
        found.append({**_row(VERSIONS, values), "reason": lineage["reason"]})
        if gate and gate["keep"]:
            parent = version
    return found


def grown_of(phases: Row) -> Row:
    """Where a version of a tree comes from, and what became of it."""
    patch, backtest = phases["patch"], phases.get("backtest")
    judged = phases.get("gate") or {}
    if backtest and not backtest["passed"]:
        judged = {"verdict": "rejected", "words": backtest["words"]}
    return {
        "parent": patch["parent"],
        "verdict": judged.get("verdict"),
        "reason": judged.get("words"),
        "engineer": patch["author"],
        "factor": (patch["patch"] or {}).get("factor"),
    }


def rounds_of(gate: Row | None, parent: int | None, backtest: Row) -> Row:
    """The same of a round, whose knobs the round before has chosen."""
    return {
        "parent": parent,
        "verdict": gate and ("kept" if gate["keep"] else "reverted"),
        "reason": gate and gate["words"],
        "engineer": backtest.get("chosen", "start"),
        "factor": "knobs",
    }


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
