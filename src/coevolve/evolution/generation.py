"""One generation: designs of the best version are backtested, trained and judged."""

import time
from functools import partial
from itertools import combinations
from typing import Any

from coevolve.core.errors import UserError
from coevolve.evolution.deciding import spent_on
from coevolve.evolution.designing import Design, design
from coevolve.evolution.judging import judge
from coevolve.evolution.learning import learn_diagnostics, learn_skill
from coevolve.evolution.planting import record_of
from coevolve.evolution.supervision import Stopped
from coevolve.evolution.testing import backtest
from coevolve.evolution.tree import Tree
from coevolve.harness.patch import patched
from coevolve.harness.version import Version

CHECK_AFTER, ROLL_BACK_AFTER = 3, 6
"""Failures in a row after which the measurement is checked, and an older version is grown from."""


def next_generation(tree: Tree) -> None:
    """Grow whatever comes next, and judge it."""
    before = len(tree.versions)
    first = merge(tree)
    grown = [first] if first else chosen(tree)
    train(tree, grown)
    for version in grown:
        judge(tree, version)
    for version in tree.versions[before:]:
        learn_skill(tree, version)
    learn_diagnostics(tree)
    kept = any(version.verdict == "kept" for version in tree.versions[before:])
    tree.failures = 0 if kept else tree.failures + 1


def merge(tree: Tree) -> Version | None:
    """Two kept siblings that changed different factors, united: a version of its own."""
    done = {version.merged for version in tree.versions}
    kept = [(one, one.patch) for one in tree.versions if one.verdict == "kept" and one.patch]
    for (one, first), (other, second) in combinations(kept, 2):
        pair = (one.number, other.number)
        if one.parent != other.parent or first.factor == second.factor or pair in done:
            continue
        better = tree.rate(one.number) >= tree.rate(other.number)
        base, patch = (one, second) if better else (other, first)
        harness = patched(base.harness, patch)
        try:
            harness.recipe.check(tree.evolution.processes)
        except UserError:  # each goes with their parent's values, and not with the other's
            continue
        version = Version(
            number=len(tree.versions), parent=base.number, patch=None, merged=pair, harness=harness
        )
        tree.ledger.phase(
            version.number, "patch", partial(record_of, version, "merge", weights=tree.weights)
        )
        tree.say(f"version {version.number}: merges versions {pair[0]} and {pair[1]}")
        tree.versions.append(version)
        return version
    return None


def chosen(tree: Tree) -> list[Version]:
    """New versions of a parent whose backtests passed."""
    number = len(tree.versions)
    parent = parent_of_next(tree, number)
    room = min(tree.evolution.width, tree.evolution.versions - len(tree.trained))
    found: list[Version] = []
    designs = design(tree, parent, number)
    if not designs:
        raise Stopped("no trainer has a patch left to try")
    for one in designs:
        if len(found) == room:
            break
        tree.diagnosed[len(tree.versions)] = number
        if version := tested(tree, parent, one):
            found.append(version)
    return found


def parent_of_next(tree: Tree, number: int) -> Version:
    """The best valid version; after many failures the one that it grew from."""
    best = tree.strongest
    if tree.failures == CHECK_AFTER:
        check_measurement(tree, best, number)
    if tree.failures >= ROLL_BACK_AFTER and best.parent is not None:
        older = tree.versions[best.parent]
        tree.say(f"version {number}: rolled back to version {older.number}, to branch again")
        return older
    return best


def check_measurement(tree: Tree, version: Version, number: int) -> None:
    """Measure the best version again; if it comes out otherwise, the noise floor was too low."""

    def work() -> dict[str, Any]:
        began = time.monotonic()
        place = tree.ledger.folder / "noise" / f"check-{number:02d}"
        draw = tree.evolution.gate.repeats + 1 + number
        again = tree.measuring.measure(
            tree.policy(version.number), tree.measuring.gate, place, draw
        )
        rate = sum(one.outcome.valid for one in again) / len(again)
        facts = {"version": version.number, "rate": rate, "before": tree.rate(version.number)}
        return {**facts, "spent": spent_on(again, began)}

    found = tree.ledger.phase(number, "check", work)
    apart = abs(found["rate"] - found["before"])
    tree.say(
        f"three failures in a row: version {version.number} measured again is {apart:.3f} off; "
        f"the noise floor is {max(tree.floor, apart):.3f}"
    )
    tree.floor = max(tree.floor, apart)


def tested(tree: Tree, parent: Version, one: Design) -> Version | None:
    """A design as the next version, or None if its backtest rejects it."""
    number = len(tree.versions)
    version = Version(number=number, parent=parent.number, patch=one.patch, harness=one.harness)
    tree.ledger.phase(
        number, "patch", lambda: record_of(version, one.author, one.skill, tree.weights)
    )
    found = tree.ledger.phase(number, "backtest", lambda: backtest(tree, parent, one.patch))
    tree.say(f"version {number} ({one.author}): {one.patch.hypothesis}")
    tree.say(
        f"version {number}: backtest {'passed' if found['passed'] else 'failed'}: {found['words']}"
    )
    note = tree.supervision.approve(number, "backtest", {"words": found["words"]})
    if found["passed"] and not note:
        tree.versions.append(version)
        return version
    words = (
        f"rejected by a person: {note}" if note else f"rejected by its backtest: {found['words']}"
    )
    tree.versions.append(version.model_copy(update={"verdict": "rejected", "words": words}))
    return None


def train(tree: Tree, versions: list[Version]) -> None:
    """All new versions, side by side where there is a cluster."""
    orders = {tree.folder(one.number): tree.order(one.number, one.harness) for one in versions}

    def trained(number: int) -> dict[str, Any]:
        tree.say(f"version {number}: training")
        tree.train(orders)
        return tree.grown(number).train

    def measured(number: int) -> dict[str, Any]:
        return tree.grown(number).dev

    for version in versions:
        tree.ledger.phase(version.number, "train", partial(trained, version.number))
        tree.ledger.phase(version.number, "dev", partial(measured, version.number))
