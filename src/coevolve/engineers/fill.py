"""From a skill to patches of a parent's harness, and whether two patches go the same way.

Invariant: every patch that is filled in can be applied, changes one factor, and names only what
the domain has; a skill that does not fit gives none.
"""

from collections.abc import Mapping
from typing import Any

from coevolve.core.errors import UserError
from coevolve.domains.knobs import Knobs, KnobSpace
from coevolve.engineers.base import View, proposals_of
from coevolve.engineers.reach import apply
from coevolve.engineers.registry import ENGINEERS, make_engineer
from coevolve.engineers.signals import hardened
from coevolve.harness.harness import Harness
from coevolve.harness.patch import Patch, flat, patched
from coevolve.harness.reward import FACTS, check_reward
from coevolve.harness.skill import Skill
from coevolve.harness.template import Ask, Harden, Put, Turn, moved, values_of


def fill(skill: Skill, view: View, seed: int, author: str = "") -> list[Patch]:
    """The patches that a skill comes to here, best first."""
    harness = view.parent.harness
    if skill.factor == "knobs":
        values: list[Any] = [dict(knobs) for knobs in filled_knobs(skill, view, seed)]
    else:
        values = values_of(skill.template, skill.factor, harness, view.components)
    found = []
    for value in values:
        patch = Patch(
            factor=skill.factor,
            value=value,
            hypothesis=worded(skill, flat(harness)[skill.factor], value),
            metric=skill.metric,
            direction=skill.direction,
            least=skill.least,
            author=author,
        )
        if digest_with(patch, view) is not None:
            found.append(patch)
    return found


def digest_with(patch: Patch, view: View) -> str | None:
    """The digest of the parent's harness with a patch in it; None where it cannot be."""
    try:
        return with_patch(view.parent.harness, patch, view.components).digest()
    except UserError:
        return None


def with_patch(harness: Harness, patch: Patch, components: Mapping[str, str]) -> Harness:
    """The harness with a patch in it, all of whose names mean something in the domain."""
    after = patched(harness, patch)
    check_reward(after.reward, {**components, **FACTS})
    return after


def worded(skill: Skill, old: Any, new: Any) -> str:
    """The hypothesis with the values in it; knobs and filters are too long to be told."""
    if isinstance(new, dict | list):
        old, new = "what it was", "what it becomes"
    text = skill.hypothesis.replace("{old}", f"{old}"[:200]).replace("{new}", f"{new}"[:200])
    return text[:1_000]


def filled_knobs(skill: Skill, view: View, seed: int) -> list[Knobs]:
    """The knobs that a skill comes to, without those that change nothing."""
    space, template = view.space, skill.template
    before = view.incumbent
    found: list[Knobs] = []
    match template:
        case Ask() if template.name in ENGINEERS:
            asked = proposals_of(make_engineer(template.name).propose(view, seed))
            values = [one.patch.value for one in asked if one.patch and not one.failure]
            found = [apply(value, before, view.reach) for value in values]
        case Harden():
            changes = {
                knob.name: hardened(knob, before[knob.name], template.by)
                for knob in before.in_use()
                if knob.harder and not knob.group
            }
            found = [apply(changes, before, view.reach)]
        case Turn() if template.knob in space.knobs:
            changes = {template.knob: moved(template.change, float(before[template.knob]))}
            found = [apply(changes, before, view.reach)]
        case Put(value=dict() as value):
            found = [apply(dict(space.project(value, before)), before, view.reach)]
    return [knobs for knobs in found if knobs.difference(before)]


def alike(one: Patch, other: Patch, harness: Harness, space: KnobSpace) -> bool:
    """Whether two patches of a harness change the same factor in the same direction.

    Numbers go up or down, knobs make tasks harder or easier, filters bring in or take out the same
    kinds; anything else must be the same value.
    """
    if one.factor != other.factor:
        return False
    if one.value == other.value:
        return True
    if one.factor == "knobs":
        before = space.project(harness.knobs)
        first, second = (hardness(space.project(p.value, before), before) for p in (one, other))
        return first * second > 0
    if one.factor == "filters":
        before_kinds = {chosen.kind for chosen in harness.filters}
        first_kinds, second_kinds = (
            {chosen["kind"] for chosen in p.value} ^ before_kinds for p in (one, other)
        )
        return bool(first_kinds) and first_kinds == second_kinds
    old = flat(harness)[one.factor]
    numbers = all(isinstance(v, int | float) for v in (old, one.value, other.value))
    return numbers and (one.value - old) * (other.value - old) > 0


def hardness(after: Knobs, before: Knobs) -> float:
    """How much harder tasks become, as the sum over knobs of their part of the range."""
    return sum(
        after.space.knobs[name].harder
        * (new - old)
        / (after.space.knobs[name].high - after.space.knobs[name].low)
        for name, (old, new) in after.difference(before).items()
    )
