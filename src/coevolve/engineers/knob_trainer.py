"""Engineers of knobs inside a tree of versions: a lineage as they see it, and a trainer of each.

Invariant: what they propose is projected and kept within a trust region of the parent's knobs.
"""

from coevolve.domains.knobs import Knobs
from coevolve.engineers.base import Engineer, Round, View
from coevolve.engineers.reach import apply
from coevolve.engineers.situation import ancestry
from coevolve.engineers.trainer import Lineage, Suggestion
from coevolve.harness.patch import Patch

REACH = 0.15
"""How far knobs may move in a version, as a share of their range."""


def view_of(lineage: Lineage) -> View | None:
    """The line from the root to the parent as rounds, then what failed of the parent's children.

    Only children that differ in knobs count: an engineer of knobs learns nothing from the others.
    None if the parent was never measured.
    """
    parent = lineage.parent
    if parent.number not in lineage.measured:
        return None
    line = [n for n in ancestry(lineage.versions, parent.number) if n in lineage.measured]
    failed = [
        one.number
        for one in lineage.versions
        if one.parent == parent.number
        and one.patch is not None
        and one.patch.factor == "knobs"
        and one.verdict in ("pruned", "reverted")
        and one.number in lineage.measured
    ]
    history: list[Round] = [lineage.measured[n] for n in (*line, *failed)]
    recipe = parent.harness.recipe
    training = {
        "round": len(lineage.versions) - 1, "steps": recipe.steps,
        "recipe": recipe.model_dump(), "reward": dict(lineage.components),
    }  # fmt: skip
    incumbent = lineage.space.project(parent.harness.knobs)
    return View(lineage.space, incumbent, tuple(history), training, lineage.note)


def knobs_by(
    engineer: Engineer, lineage: Lineage, seed: int, reach: float = REACH
) -> list[tuple[Knobs, Suggestion]]:
    """Knobs that an engineer proposes and that differ, each with what is to be recorded of it."""
    view = view_of(lineage)
    if view is None:
        return []
    found = []
    for proposal in engineer.propose(view, seed):
        knobs = apply(proposal, view.incumbent, reach)
        said = Suggestion(failure=proposal.failure, shown=proposal.shown, tokens=proposal.tokens)
        if not proposal.failure and not knobs.difference(view.incumbent):
            said = said.model_copy(update={"failure": "the proposal changes nothing"})
        if not said.failure:
            patch = Patch(
                factor="knobs",
                value=dict(knobs),
                hypothesis=f"If the knobs change so, then more is learned: {proposal.explanation}"[
                    :1_000
                ],
                author=engineer.name,
            )
            said = said.model_copy(update={"patch": patch.model_dump(mode="json")})
        found.append((knobs, said))
    return found


class KnobTrainer:
    """An engineer of knobs, as a trainer that changes nothing else."""

    def __init__(self, engineer: Engineer, reach: float = REACH) -> None:
        self.name = engineer.name
        self.engineer = engineer
        self.reach = reach

    def propose(self, lineage: Lineage, seed: int) -> list[Suggestion]:
        found = knobs_by(self.engineer, lineage, seed, self.reach)
        if not found:
            return [Suggestion(failure=f"version {lineage.parent.number} was not measured yet")]
        return [said for _, said in found]
