"""What a judged version teaches: a skill that held or failed, and at times a new diagnostic.

A run follows its own copy of the skills, which nobody else writes, and tells the library that runs
share what it found. Invariant: files are written from what is recorded, so that a run which is
broken off in between writes the same.
"""

from typing import Any

from coevolve.core.seeds import digest
from coevolve.engineers.distilling import distil
from coevolve.engineers.library import SkillLibrary
from coevolve.engineers.situation import situation_of
from coevolve.evaluation.paired import Difference
from coevolve.evidence.diagnostic import Diagnostic
from coevolve.evidence.health import Finding, Health
from coevolve.evolution.diagnostics.keeping import keep_trials
from coevolve.evolution.diagnostics.need import needs_diagnostic
from coevolve.evolution.diagnostics.screening import from_grid
from coevolve.evolution.diagnostics.separation import labels_of
from coevolve.evolution.diagnostics.trials import Occasion, Trial, try_diagnostics, try_threshold
from coevolve.evolution.tree import Tree
from coevolve.harness.evolution import Evolution
from coevolve.harness.skill import Skill
from coevolve.harness.version import Version

OWN = "skills"
"""In the folder of a run: the skills that it follows."""


def begin_skills(tree: Tree) -> None:
    """Copy the skills that the run begins with, once."""

    def work() -> dict[str, Any]:
        found = SkillLibrary(tree.skills).copied(tree.ledger.folder / OWN)
        return {"from": str(tree.skills), "skills": sorted(found.skills)}

    tree.ledger.phase(0, "skills", work)


def learn_skill(tree: Tree, version: Version) -> None:
    """Add what became of a version to the skills behind it."""
    own = SkillLibrary(tree.ledger.folder / OWN)

    def work() -> dict[str, Any]:
        skills = distilled(tree, own, version)
        return {"skills": [skill.model_dump(mode="json") for skill in skills]}

    recorded = tree.ledger.phase(version.number, "skill", work)
    for skill in map(Skill.model_validate, recorded["skills"]):
        own.absorb(skill)
        SkillLibrary(tree.skills).absorb(skill)


def distilled(tree: Tree, library: SkillLibrary, version: Version) -> list[Skill]:
    """The skills that a version speaks for or against, with this trial in their evidence."""
    if version.parent is None or version.patch is None:
        return []
    parent, domain = tree.versions[version.parent], tree.measuring.domain
    recorded = tree.recorded(tree.diagnosed[version.number], "diagnose")
    findings = [Finding.model_validate(finding) for finding in recorded["findings"]]
    change = None
    if version.verdict != "rejected":
        change = Difference(**tree.recorded(version.number, "gate")["change"])
    return distil(
        library.skills,
        version,
        parent,
        situation_of(findings, tree.versions, parent.number),
        change,
        domain.space,
        run=identity(tree.evolution),
        domain=domain.name,
        components=domain.components,
        skill=tree.recorded(version.number, "patch")["skill"],
    )


def identity(evolution: Evolution) -> str:
    """The name of a run, and a hash of its plan: the same again is no further evidence."""
    plan = evolution.model_dump_json(exclude={"skills"})
    return f"{evolution.name}-{digest(plan, size=4).hex()}"


def learn_diagnostics(tree: Tree) -> None:
    """Where diagnostics do not explain what became of versions, try new ones."""
    last = len(tree.versions) - 1

    def work() -> dict[str, Any]:
        health = tree.health()
        reason = needs_diagnostic(health, tree.versions, tree.evolution.diagnostic)
        trials = tried(tree, health) if reason else []
        return {"reason": reason, "trials": [trial.model_dump(mode="json") for trial in trials]}

    recorded = tree.ledger.phase(last, "diagnostics", work)
    trials = [Trial.model_validate(trial) for trial in recorded["trials"]]
    keep_trials(tree.ledger.folder, trials)
    for trial in trials:
        if trial.accepted:
            tree.say(f"new diagnostic from version {last + 1} on: {trial.diagnostic.question}")


def tried(tree: Tree, health: Health) -> list[Trial]:
    """New questions, and other thresholds for the alarms of the newest version."""
    before = [event for event in tree.ledger.events("phase") if event.phase == "diagnostics"]
    occasion = Occasion(
        folder=tree.ledger.folder,
        labels=labels_of(tree.versions),
        since=len(tree.versions),
        rule=tree.evolution.diagnostic,
        seed=tree.evolution.seed,
        earlier=sum(bool(event.payload["trials"]) for event in before),
    )
    names = {alarm.diagnostic for alarm in health.alarms if alarm.version == occasion.since - 1}
    new = list({one.name: one for one in (*from_grid(occasion), *proposed(tree))}.values())
    revised = [try_threshold(name, occasion, len(names)) for name in sorted(names)]
    return [
        *try_diagnostics(new, occasion),
        *(trial for trial in revised if trial is not None),
    ]


def proposed(tree: Tree) -> list[Diagnostic]:
    """What trainers have proposed and was not tried yet."""
    phases = tree.ledger.events("phase")
    known = {
        trial["diagnostic"]["name"]
        for event in phases
        if event.phase == "diagnostics"
        for trial in event.payload["trials"]
    }
    found: dict[str, Diagnostic] = {}
    for event in phases:
        if event.phase and event.phase.startswith("propose"):
            for suggestions in event.payload["suggestions"].values():
                for values in (made for one in suggestions for made in one["diagnostics"]):
                    made = Diagnostic.model_validate(values)
                    if made.name not in known:
                        found[made.name] = made
    return list(found.values())
