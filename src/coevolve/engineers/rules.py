"""The engineer that needs no model: skills whose triggers hold become patches.

Invariant: a harness that was tried before is never suggested again, and what a negative skill warns
of is not suggested at all; while there is anything left to try, there is a suggestion.
"""

from coevolve.core.seeds import derive
from coevolve.engineers.base import View
from coevolve.engineers.fill import alike, digest_with, fill
from coevolve.engineers.library import SkillLibrary
from coevolve.engineers.situation import situation_of
from coevolve.harness.patch import FACTORS, Patch
from coevolve.harness.proposal import Proposal
from coevolve.harness.skill import Skill
from coevolve.harness.template import Drop, Remove, Rewrite, Template

MOST = 12
"""Proposals at a time."""
BORROW_AFTER, REMOVE_AFTER = 4, 5
"""Failures in a row after which what held elsewhere, and what takes something away, comes first."""


class RulesEngineer:
    """Follows matching skills, best first; those without a trigger are its local search.

    Where layers of factors failed lately, other layers come first; after more failures, what held
    in other domains; after still more, removing before adding.
    """

    name = "rules"

    def __init__(self, library: SkillLibrary | None = None) -> None:
        self.library = library or SkillLibrary()

    def propose(self, view: View, seed: int) -> list[Proposal]:
        situation = situation_of(view.findings, view.versions, view.parent.number)
        drawn = derive(seed, "rules", view.parent.number, len(view.versions))
        taboo = warnings(self.library.warning(view.domain, situation), view, drawn)
        tried = {*view.tried, None}  # none: it cannot be applied
        found: list[tuple[tuple[bool, ...], Proposal]] = []
        for skill in self.library.matching(view.domain, situation):
            if skill.factor not in view.factors:
                continue
            for patch in fill(skill, view, drawn, self.name):
                digest = digest_with(patch, view)
                if digest in tried or warned_of(patch, taboo, view):
                    continue
                tried.add(digest)
                later = (
                    FACTORS[patch.factor][0] in view.switch,
                    view.failures >= BORROW_AFTER and set(skill.held_in) <= {view.domain},
                    view.failures >= REMOVE_AFTER and not removes(skill.template),
                )
                said = Proposal(patch=patch, skill=skill.name)
                found.append((later, said))
        found.sort(key=lambda pair: pair[0])
        if not found:
            return [Proposal(failure="every skill that applies here was tried already")]
        return [said for _, said in found[:MOST]]


def removes(template: Template) -> bool:
    """Whether something is taken away: after failures that is rather tried than more on top."""
    simpler = isinstance(template, Rewrite) and "{reward}" not in template.text
    return simpler or isinstance(template, Remove | Drop)


def warnings(skills: list[Skill], view: View, seed: int) -> list[tuple[Skill, Patch]]:
    """The patches that negative skills would have made."""
    return [(skill, patch) for skill in skills for patch in fill(skill, view, seed)]


def warned_of(patch: Patch, taboo: list[tuple[Skill, Patch]], view: View) -> Skill | None:
    """The negative skill that speaks against a patch."""
    for skill, bad in taboo:
        if alike(patch, bad, view.parent.harness, view.space):
            return skill
    return None
