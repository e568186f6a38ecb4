"""The end of a version: the gate's verdict on it."""

from typing import Any

from coevolve.core.errors import EvidenceError
from coevolve.evidence.health import Health, readings_at
from coevolve.evolution.best import beside_base, best_of
from coevolve.evolution.promotion import Evidence, Promotion, promote
from coevolve.evolution.tree import Tree
from coevolve.harness.patch import Patch
from coevolve.harness.version import Version


def judge(tree: Tree, version: Version) -> None:
    """Give the version in the tree its verdict; a person may end the run then, which keeps it."""
    number, parent = version.number, version.parent
    assert parent is not None

    def work() -> dict[str, Any]:
        health = tree.health()
        check_asked(health)
        before, after = evidence(tree, health, parent), evidence(tree, health, number)
        found = better(tree, before, after, version.patch)
        facts = {**tree.grown(number).gate, **found.as_json(), "floor": tree.floor}
        return with_best(tree, number, facts, after)

    verdict = tree.ledger.phase(number, "gate", work)
    tree.say(f"version {number}: {verdict['words']}")
    tree.versions[number] = version.model_copy(
        update={"verdict": verdict["verdict"], "words": verdict["words"]}
    )
    note = tree.supervision.approve(number, "completion", {"verdict": verdict["words"]})
    tree.note = "\n".join(filter(None, (tree.note, note)))


def check_asked(health: Health) -> None:
    """A version is not judged while something that could block it cannot be asked."""
    for finding in health.findings:
        if finding.diagnostic.blocks and finding.error:
            raise EvidenceError(
                f"diagnostic '{finding.diagnostic.name}' blocks promotion and cannot be asked: "
                f"{finding.error}; the run goes on with `coevolve resume` once it can"
            )


def better(tree: Tree, before: Evidence, after: Evidence, patch: Patch | None) -> Promotion:
    """The rule of the run: whether one is better than the other."""
    return promote(before, after, patch, tree.evolution.gate, tree.floor, tree.evolution.seed)


def with_best(tree: Tree, number: int, facts: dict[str, Any], after: Evidence) -> dict[str, Any]:
    """What the gate says of a version, how it compares to no training, and what is best now."""
    beside = better(tree, Evidence(tree.base_gate(), {}), after, None)
    facts = {**facts, "base": beside_base(beside)}
    gates = tree.valid_gates | ({number: facts} if facts["keep"] else {})
    return {**facts, "best": best_of(tree.base, gates).as_json()}


def evidence(tree: Tree, health: Health, number: int) -> Evidence:
    """What is known of a version: its gate rollouts, and what diagnostics say of it."""
    readings = readings_at(health.findings, number)
    stopped = tree.recorded(number, "train")["result"]["stopped"]
    return Evidence(tree.gate(number), readings, health.blocking(number), stopped)
