"""A patch put to the test before it is trained: on what its parent has left behind."""

import time
from typing import Any

from coevolve.core.errors import KnobError
from coevolve.core.rollout import Rollout
from coevolve.core.seeds import derive
from coevolve.domains.knobs import Knobs
from coevolve.evolution.backtests.backtested import Backtested
from coevolve.evolution.backtests.patches import backtest_patch
from coevolve.evolution.deciding import spent_on
from coevolve.evolution.redesigning import folder_name
from coevolve.evolution.training import own_tasks
from coevolve.evolution.tree import Tree
from coevolve.harness.patch import Patch, patched
from coevolve.harness.version import Version


def backtest(tree: Tree, parent: Version, patch: Patch) -> dict[str, Any]:
    """A patch on the parent's rollouts; where knobs change, its policy answers a few new tasks."""
    began, rule = time.monotonic(), tree.evolution.backtest
    asked: list[Rollout] = []

    def probe(knobs: Knobs) -> list[Rollout]:
        place = tree.folder(parent.number) / "probes" / folder_name(knobs)
        policy, recipe = tree.policy(parent.number), parent.harness.recipe
        rollouts = tree.measuring.probe(policy, knobs, rule, recipe, parent.number, place)
        asked.extend(rollouts)
        return rollouts

    seed = derive(tree.evolution.seed, "backtest", parent.number)
    domain = tree.measuring.domain
    try:
        if patch.factor not in ("reward", "filters"):
            after = patched(parent.harness, patch)
            own_tasks(domain, after.knobs, after.recipe, tree.order(parent.number, after).seed)
        found = backtest_patch(patch, parent, tree.ledger.folder, domain, probe, rule, seed)
    except KnobError as error:
        words = f"its tasks cannot be made: {error}"
        found = Backtested(passed=False, words=words, prediction="unclear")
    return {**found.model_dump(mode="json"), "spent": spent_on(asked, began)}


def foretold(tree: Tree, parent: Version, patch: Patch) -> dict[str, Any]:
    """The same for a trainer that asks: what costs no rollouts."""
    if patch.factor == "knobs":
        return {"words": "knobs are probed with new tasks, once they are proposed"}
    found = backtest(tree, parent, patch)
    return {name: found[name] for name in ("passed", "words", "prediction")}
