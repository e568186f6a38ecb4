"""From a judged version to a skill: what its patch did becomes evidence for the next time.

Invariant: a pure function of recorded facts, so that a resumed run learns the same.
"""

import json
from collections.abc import Mapping

from coevolve.core.seeds import digest
from coevolve.domains.knobs import KnobSpace
from coevolve.engineers.fill import alike
from coevolve.engineers.registry import ENGINEERS
from coevolve.engineers.situation import Situation
from coevolve.evaluation.difference import Difference
from coevolve.harness.code import is_code
from coevolve.harness.diagnostic import Layer
from coevolve.harness.harness import Harness
from coevolve.harness.patch import FACTORS, Patch, flat
from coevolve.harness.skill import SIGNS, Skill, Trial
from coevolve.harness.template import (
    Append,
    Ask,
    Put,
    Remove,
    Rewrite,
    Scale,
    Template,
    values_of,
)
from coevolve.harness.version import Version

MOST_SIGNS = 2
"""Comparisons in a trigger that is learned: more would hardly ever hold again."""
ROOM = 4.0
"""How many times further than it went a learned change may go."""


def distil(
    skills: Mapping[str, Skill],
    version: Version,
    parent: Version,
    situation: Situation,
    change: Difference | None,
    space: KnobSpace,
    *,
    run: str,
    domain: str,
    components: Mapping[str, str],
    skill: str = "",
    date: str = "",
) -> list[Skill]:
    """The skills that a judged version speaks for or against, with this trial in their evidence.

    `situation` is the parent's, `change` what the gate measured, `skill` the name of the one that
    the patch came from. Without one it is the skill that says the same in this situation, or a new
    one. What local search found and was kept also becomes a skill with the signs of this parent.
    Nothing follows from what was not judged or has no patch.
    """
    if version.patch is None or version.verdict in (None, "root"):
        return []
    trial = Trial(
        run=run, domain=domain, version=version.number, verdict=version.verdict, date=date
    )
    if change is not None:
        measured = {"gain": change.mean, "low": change.low, "high": change.high, "n": change.n}
        trial = trial.model_copy(update=measured)
    patch, harness = version.patch, parent.harness
    found = skills.get(skill) or similar(skills, patch, harness, situation, space, components)
    if found is None:
        template = template_of(patch, harness)
        return [learned(patch, template, situation, domain).tried(trial)]
    spoken = [found]
    if version.verdict == "kept" and not found.trigger:
        signed = {name: one for name, one in skills.items() if one.trigger}
        sign = similar(signed, patch, harness, situation, space, components)
        sign = sign or learned(patch, found.template, situation, domain)
        # Without any sign it would only repeat the local search.
        spoken += [sign] if sign.trigger else []
    return [one.tried(trial) for one in spoken]


def similar(
    skills: Mapping[str, Skill],
    patch: Patch,
    harness: Harness,
    situation: Situation,
    space: KnobSpace,
    components: Mapping[str, str],
) -> Skill | None:
    """A known skill that would have done the same here; rather one that saw a clear sign."""
    known = sorted(
        skills.values(),
        key=lambda one: (not one.trigger, SIGNS.index(one.layer), one.rank, one.name),
    )
    for skill in known:
        if skill.negative or skill.factor != patch.factor or not skill.applies(situation.values):
            continue
        match skill.template:
            case Ask(name=name):
                same = name == patch.author
            case template if patch.factor == "knobs":
                same = isinstance(template, Put) and template.value == patch.value
            case template:
                values = values_of(template, skill.factor, harness, components)
                others = [patch.model_copy(update={"value": value}) for value in values]
                same = any(alike(patch, other, harness, space) for other in others)
        if same:
            return skill
    return None


def learned(patch: Patch, template: Template, situation: Situation, domain: str) -> Skill:
    """A new skill that does what a patch did, where the signs are as they were."""
    when, layer = signs(situation)
    content = json.dumps(
        [patch.factor, template.model_dump(mode="json"), when, domain], sort_keys=True
    )
    word = patch.factor.rpartition(".")[2]
    return Skill(
        name=f"learned_{word}_{digest(content).hex()[:8]}",
        summary=f"{FACTORS[patch.factor][1]}: {in_words(template)}, learned in {domain}",
        trigger=when,
        factor=patch.factor,
        template=template,
        hypothesis=patch.hypothesis[:900],
        metric=patch.metric,
        direction=patch.direction,
        least=patch.least,
        layer=layer,
        domains=(domain,),
        learned=True,
        provenance=f"by {patch.author or 'a person'}",
    )


def template_of(patch: Patch, harness: Harness) -> Template:
    """How the new value follows from the old one, as generally as can be said."""
    old, new = flat(harness)[patch.factor], patch.value
    if patch.factor == "knobs" and patch.author in ENGINEERS:
        return Ask(name=patch.author)
    if patch.factor == "reward" and isinstance(new, str) and not is_code(new):
        if harness.reward.isidentifier() or harness.reward not in new:
            return Rewrite(text=new)
        whole = f"({harness.reward})"
        return Rewrite(text=new.replace(whole if whole in new else harness.reward, "{reward}"))
    if patch.factor == "filters" and isinstance(new, list):
        kinds = {one["kind"] for one in old}
        added = [one for one in new if one not in old]
        gone = [one["kind"] for one in old if one not in new]
        if len(added) == 1 and not set(gone) - {added[0]["kind"]}:
            return Append.model_validate({"filter": added[0]})
        if not added and kinds:
            return Remove(filters=tuple(sorted(gone)))
    if isinstance(old, int | float) and isinstance(new, int | float) and old > 0 and new > 0:
        return Scale(
            by=float(f"{new / old:.4g}"), low=min(old, new) / ROOM, high=max(old, new) * ROOM
        )
    return Put(value=new)


def in_words(template: Template) -> str:
    """A template in a few words."""
    values = template.model_dump(mode="json", exclude={"kind", "low", "high"})
    return f"{template.kind} {', '.join(str(value) for value in values.values())}"[:150]


def signs(situation: Situation) -> tuple[str, Layer]:
    """What was beyond its threshold, as a trigger; or else what moved most; and its layer."""
    if situation.alarms:
        seen = situation.alarms[:MOST_SIGNS]
        parts = [
            f"{one.diagnostic} {'>' if one.direction == 'above' else '<'} {one.threshold:g}"
            for one in seen
        ]
        return " and ".join(parts), seen[0].layer
    moves = {
        name: change / max(abs(situation.values[name.removesuffix(".change")] - change), 0.05)
        for name, change in situation.values.items()
        if name.endswith(".change") and change
    }
    if not moves:
        return "", "score"
    name = max(moves, key=lambda one: (abs(moves[one]), one))
    # Half of the move counts as the same sign.
    sign = ">" if moves[name] > 0 else "<"
    return f"{name} {sign} {situation.values[name] / 2:.3g}", "version"
