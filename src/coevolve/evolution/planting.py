"""The root of a tree: the harness that a run begins with, trained, measured and repeated.

Before that the base policy is measured, so that a tree can end with no training at all. Greedy
answers are the same every time: they are not drawn again.
"""

import time
from typing import Any

from coevolve.core.rollout import Rollout
from coevolve.evolution.best import rate_of
from coevolve.evolution.deciding import measure_base, spent_on
from coevolve.evolution.growing import grown
from coevolve.evolution.isolation import code_hash
from coevolve.evolution.judging import check_asked, evidence, with_best
from coevolve.evolution.noise import noise_of
from coevolve.evolution.tree import Tree
from coevolve.harness.budget import Spent
from coevolve.harness.version import Version


def plant(tree: Tree) -> None:
    """The base policy, version 0, and the noise floor."""
    evolution, ledger = tree.evolution, tree.ledger
    root = Version(number=0, parent=None, patch=None, harness=evolution.harness)
    twins = {
        ledger.folder / "twins" / f"{twin:02d}": tree.order(0, root.harness, twin)
        for twin in range(1, evolution.gate.twins + 1)
    }

    def train() -> dict[str, Any]:
        tree.say(f"version 0: training the root, and {len(twins)} times again for the noise floor")
        tree.train({tree.folder(0): tree.order(0, root.harness), **twins})
        return tree.grown(0).train

    def gate() -> dict[str, Any]:
        facts = tree.grown(0).gate
        words = f"root: {rate_of(facts):.1%} of {facts['n']} attempts at gate tasks are valid"
        facts = {**facts, "verdict": "root", "keep": True, "words": words}
        health = tree.health()
        check_asked(health)
        return with_best(tree, 0, facts, evidence(tree, health, 0))

    def noise() -> dict[str, Any]:
        began, gate = time.monotonic(), tree.measuring.gate
        draws = range(1, evolution.gate.repeats + 1) if evolution.measured.temperature else ()
        repeated = [repeat(tree, draw) for draw in draws]
        drawn = [one for rollouts in repeated for one in rollouts]
        spent = [Spent.model_validate(spent_on(drawn, began))]
        trained = []
        for folder in twins:
            twin = grown(folder)
            assert twin is not None
            spent += [
                Spent.model_validate(one["spent"]) for one in (twin.train, twin.dev, twin.gate)
            ]
            trained.append(tree.measuring.measure(twin.policy, gate, folder / "gate"))
        found = noise_of(tree.gate(0), repeated, trained, evolution.seed)
        return {**found.as_json(), "spent": sum(spent, Spent()).model_dump()}

    measure_base(ledger, tree.measuring)
    ledger.phase(0, "patch", lambda: record_of(root, "start", weights=tree.weights))
    ledger.phase(0, "train", train)
    ledger.phase(0, "dev", lambda: tree.grown(0).dev)
    measured = ledger.phase(0, "noise", noise)
    tree.say(str(measured["words"]))
    tree.floor = measured["floor"]
    verdict = ledger.phase(0, "gate", gate)
    tree.say(f"version 0: {verdict['words']}")
    tree.versions = [root.model_copy(update={"verdict": "root", "words": verdict["words"]})]


def repeat(tree: Tree, draw: int) -> list[Rollout]:
    """The root on the gate tasks again, with other draws."""
    place = tree.ledger.folder / "noise" / f"{draw:02d}"
    return tree.measuring.measure(tree.policy(0), tree.measuring.gate, place, draw)


def record_of(version: Version, author: str, skill: str = "", weights: str = "") -> dict[str, Any]:
    """A version as it is recorded before it is trained, with hashes of all that goes into it."""
    return {
        **version.model_dump(mode="json"),
        "author": author,
        "skill": skill,
        "hashes": {
            "harness": version.harness.digest(),
            "code": code_hash(),
            "policy": weights,
        },
    }
