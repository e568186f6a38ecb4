"""The end of a version: the gate's verdict on it."""

from typing import Any

from coevolve.evidence.health import Health, readings_at
from coevolve.evolution.promotion import Evidence, promote
from coevolve.evolution.tree import Tree
from coevolve.harness.version import Version


def judge(tree: Tree, version: Version) -> Version:
    """The version with the verdict on it."""
    number, parent = version.number, version.parent
    assert parent is not None

    def work() -> dict[str, Any]:
        health = tree.health()
        found = promote(
            evidence(tree, health, parent),
            evidence(tree, health, number),
            version.patch,
            tree.evolution.gate,
            tree.floor,
            tree.evolution.seed,
        )
        return {**tree.grown(number).gate, **found.as_json(), "floor": tree.floor}

    verdict = tree.ledger.phase(number, "gate", work)
    tree.say(f"version {number}: {verdict['words']}")
    tree.supervision.approve(number, "completion", {"verdict": verdict["words"]})
    return version.model_copy(update={"verdict": verdict["verdict"], "words": verdict["words"]})


def evidence(tree: Tree, health: Health, number: int) -> Evidence:
    """What is known of a version: its gate rollouts, and what diagnostics say of it."""
    readings = readings_at(health.findings, number)
    stopped = tree.recorded(number, "train")["result"]["stopped"]
    return Evidence(tree.gate(number), readings, health.blocking(number), stopped)
