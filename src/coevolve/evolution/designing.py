"""From a diagnosis to designs: trainers look at the lineage and propose, the program screens.

Invariant: a design is one patch of the parent's harness that can be trained and was never tried.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from coevolve.core.errors import UserError
from coevolve.core.seeds import derive
from coevolve.engineers.base import Round
from coevolve.engineers.model_trainer import ModelTrainer
from coevolve.engineers.trainer import Lineage, Suggestion, Trainer
from coevolve.evidence.cells import Case, Cell
from coevolve.evidence.health import Diagnosis, Finding
from coevolve.evidence.locked import Locked
from coevolve.evolution.backtests.reward import check_names
from coevolve.evolution.proposing import waited_for
from coevolve.evolution.supervision import Stopped
from coevolve.evolution.testing import foretold
from coevolve.evolution.tree import Tree
from coevolve.harness.budget import Spent
from coevolve.harness.checked import checked
from coevolve.harness.harness import Harness
from coevolve.harness.patch import FACTORS, Patch, flat, patched
from coevolve.harness.rules import MOST_REVISIONS
from coevolve.harness.version import Version

MOST_SUGGESTIONS = 16
"""Of one trainer in one generation."""


class Design(NamedTuple):
    """A patch that can be tried."""

    patch: Patch
    harness: Harness
    author: str
    skill: str


def design(tree: Tree, parent: Version, number: int) -> list[Design]:
    """What may be tried next, in order of preference, revised as often as a person asks."""
    findings = diagnose(tree, parent, number)
    note = tree.supervision.approve(number, "diagnosis", {"parent": parent.number})
    note = "\n".join(filter(None, (tree.note, note)))
    tree.note = ""
    for attempt in range(MOST_REVISIONS + 1):
        name = f"propose-{attempt}" if attempt else "propose"
        recorded = tree.ledger.phase(
            number, name, partial(propose, tree, parent, number, findings, note)
        )
        found, refused = screen(tree, parent, recorded["suggestions"])
        for why in refused:
            tree.say(f"version {number}: {why}")
        question = {
            "designs": [f"{one.author}: {one.patch.hypothesis}" for one in found],
            "refused": refused,
            "attempt": attempt,
        }
        asking = tree.evolution.asks_after and tree.failures >= tree.evolution.asks_after
        note = tree.supervision.approve(number, "design", question, always=bool(asking))
        if not note:
            return found
    raise Stopped(f"the designs of version {number} were sent back {MOST_REVISIONS + 1} times")


def diagnose(tree: Tree, parent: Version, number: int) -> tuple[Finding, ...]:
    """Every diagnostic over all versions so far."""

    def work() -> dict[str, Any]:
        health = tree.health()
        return {
            "parent": parent.number,
            "failures": tree.failures,
            "alarms": [alarm.words for alarm in health.alarms if alarm.version == parent.number],
            "findings": [finding.model_dump(mode="json") for finding in health.findings],
        }

    recorded = tree.ledger.phase(number, "diagnose", work)
    for words in recorded["alarms"]:
        tree.say(f"version {parent.number}: {words}")
    return tuple(Finding.model_validate(finding) for finding in recorded["findings"])


def propose(
    tree: Tree, parent: Version, number: int, findings: tuple[Finding, ...], note: str
) -> dict[str, Any]:
    """What every trainer suggests, as it is recorded."""
    began, seed = time.monotonic(), derive(tree.evolution.seed, "trainer", number)
    domain = tree.measuring.domain
    with Diagnosis(tree.ledger.folder) as diagnosis:
        lineage = Lineage(
            domain=domain.name,
            space=domain.space,
            components=domain.components,
            parent=parent,
            versions=tuple(tree.versions),
            findings=findings,
            measured={one.number: measured(tree, one) for one in tree.trained},
            ask=diagnosis.locked.ask,
            backtest=partial(foretold, tree, parent),
            failures=tree.failures,
            switch=failed_layers(tree),
            note=note,
        )
        found: dict[str, list[Suggestion]] = {}
        for name, make in tree.trainers(tree.policy(parent.number)).items():
            # One of its own for each: what does not answer in time may still be asking.
            with Locked(diagnosis.evidence, diagnosis.locked.bounds) as locked:
                own = lineage._replace(ask=locked.ask)
                found[name] = suggested(make, own, seed, tree.evolution.patience_s)
    every = [one for suggestions in found.values() for one in suggestions]
    spent = Spent(
        tokens=sum(one.tokens for one in every),
        money=sum(one.money for one in every),
        seconds=time.monotonic() - began,
    )
    return {
        "suggestions": {
            name: [one.model_dump(mode="json") for one in suggestions]
            for name, suggestions in found.items()
        },
        "spent": spent.model_dump(),
    }


def suggested(
    make: Callable[[], Trainer], lineage: Lineage, seed: int, patience_s: float
) -> list[Suggestion]:
    """The suggestions of a trainer; its failure is data, also that it cannot be loaded."""
    made: list[Trainer] = []

    def work() -> list[Suggestion]:
        made.append(make())
        return made[0].propose(lineage, seed)

    found, failure = waited_for(work, patience_s)
    if not failure:
        return found[:MOST_SUGGESTIONS]
    ended = made[0].give_up() if made and isinstance(made[0], ModelTrainer) else Suggestion()
    return [ended.model_copy(update={"failure": failure})]


def measured(tree: Tree, version: Version) -> Round:
    """A version as knob engineers see rounds."""
    train, dev = tree.recorded(version.number, "train"), tree.recorded(version.number, "dev")
    return Round(
        number=version.number,
        knobs=dict(tree.measuring.domain.space.parse(version.harness.knobs)),
        dev=tuple(Cell.model_validate(cell) for cell in dev["cells"]),
        train=tuple(Cell.model_validate(cell) for cell in train["cells"]),
        cases=tuple(Case.model_validate(case) for case in dev["cases"]),
        engineer=version.patch.author if version.patch else "start",
        explanation=version.patch.hypothesis if version.patch else "",
        verdict="kept" if version.valid else "reverted",
    )


def failed_layers(tree: Tree) -> tuple[str, ...]:
    """After three failures in a row: the layers of what failed, to switch away from."""
    if tree.failures < 3:
        return ()
    tried = [one.patch.factor for one in tree.versions if one.patch and not one.valid]
    return tuple(dict.fromkeys(FACTORS[factor][0] for factor in reversed(tried[-tree.failures :])))


def screen(
    tree: Tree, parent: Version, suggestions: Mapping[str, list[dict[str, Any]]]
) -> tuple[list[Design], list[str]]:
    """Suggestions that can be tried, and why the others cannot."""
    designs: list[Design] = []
    refused = []
    tried = {version.harness.digest(): version.number for version in tree.versions}
    for author, listed in suggestions.items():
        for one in map(Suggestion.model_validate, listed):
            try:
                if one.failure:
                    raise UserError(one.failure)
                found = designed(tree, parent, one, author)
                digest = found.harness.digest()
                if digest in tried:
                    raise UserError(f"{found.patch.factor} was tried so in version {tried[digest]}")
                tried[digest] = len(tree.versions) + len(designs)
                designs.append(found)
            except UserError as error:
                refused.append(f"refused, from {author}: {error}")
    return designs[: tree.evolution.candidates], refused


def designed(tree: Tree, parent: Version, suggestion: Suggestion, author: str) -> Design:
    """A suggestion as a patch of the parent; a `UserError` says why it is none."""
    domain = tree.measuring.domain
    patch = checked(Patch, {**suggestion.patch, "author": author}, f"the patch of {author}")
    if patch.factor == "knobs":
        knobs = checked(Harness, {"knobs": patch.value}, f"the patch of {author}").knobs
        patch = patch.model_copy(update={"value": dict(domain.space.parse(knobs))})
    harness = patched(parent.harness, patch)
    check_names(harness.reward, domain)
    harness.recipe.check(tree.evolution.processes)
    # As it was read, so that no spelling of a value hides what it is.
    patch = patch.model_copy(update={"value": flat(harness)[patch.factor]})
    return Design(patch, harness, author, suggestion.skill)
