"""What a judged version teaches: a skill that held, or one that failed.

A run follows its own copy of the skills, which nobody else writes, and tells the library that runs
share what it found.
"""

from typing import Any

from coevolve.engineers.distilling import distil
from coevolve.engineers.library import SkillLibrary
from coevolve.engineers.situation import situation_of
from coevolve.evaluation.paired import Difference
from coevolve.evidence.health import Finding
from coevolve.evolution.tree import Tree
from coevolve.harness.version import Version

OWN = "skills"
"""In the folder of a run: the skills that it follows."""


def begin_skills(tree: Tree) -> None:
    """Copy the skills that the run begins with, once."""

    def work() -> dict[str, Any]:
        found = SkillLibrary(tree.skills).copied(tree.ledger.folder / OWN)
        return {"from": str(tree.skills), "skills": sorted(found.skills)}

    tree.ledger.phase(0, "skills", work)


def learn(tree: Tree, version: Version) -> None:
    """Add what became of a version to the skill behind it."""

    def work() -> dict[str, Any]:
        library = SkillLibrary(tree.ledger.folder / OWN)
        skill = distilled(tree, library, version)
        if skill is None:
            return {"skill": None}
        library.absorb(skill)
        SkillLibrary(tree.skills).absorb(skill)
        return {"skill": skill.name, "words": f"{skill.name}: {skill.summary}"}

    tree.ledger.phase(version.number, "skill", work)


def distilled(tree: Tree, library: SkillLibrary, version: Version) -> Any:
    if version.parent is None or version.patch is None:
        return None
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
        run=tree.evolution.name,
        domain=domain.name,
        components=domain.components,
        skill=tree.recorded(version.number, "patch")["skill"],
    )
