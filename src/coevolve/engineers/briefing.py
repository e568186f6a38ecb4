"""What a model that trains is told before it asks anything: the parent, its signs, the lineage.

Invariant: text that anybody else wrote is fenced or cleaned, and the whole keeps to its budget.
"""

import json

from coevolve.engineers.base import Round
from coevolve.engineers.fence import clean, cut, fenced
from coevolve.engineers.library import SkillLibrary
from coevolve.engineers.signals import counted, pooled
from coevolve.engineers.situation import Situation
from coevolve.engineers.trainer import Lineage
from coevolve.harness.patch import FACTORS, flat
from coevolve.harness.shaping import FACTS
from coevolve.harness.skill import Skill
from coevolve.harness.version import Version

CHARACTERS_PER_TOKEN = 4
NOTE_CHARACTERS = 2_000
WORDS = 160
"""Characters that are shown in a list of why a backtest rejected a version."""


def briefing(
    lineage: Lineage, situation: Situation, library: SkillLibrary, budget_tokens: int
) -> str:
    """Everything at a glance; the longest parts are cut first."""
    budget = budget_tokens * CHARACTERS_PER_TOKEN
    parts = [
        about(lineage),
        signs(situation),
        listed(lineage),
        skills_here(lineage, situation, library),
        factors(lineage),
    ]
    share = budget // len(parts)
    spare = sum(max(0, share - len(part)) for part in parts)
    parts = [cut(part, share + spare) if len(part) > share else part for part in parts]
    if lineage.note:
        note = fenced(lineage.note, NOTE_CHARACTERS)
        parts.append(f"A person has a remark:\n{note}")
    return "\n\n".join(parts)


def about(lineage: Lineage) -> str:
    """The domain, and what a reward may be made of."""
    names = {**lineage.components, **FACTS}
    lines = [f"- {name}: {clean(meaning)}" for name, meaning in names.items()]
    return "\n".join([f"Domain: {lineage.domain}. A reward may use", *lines])


def factors(lineage: Lineage) -> str:
    """What may change, and what it is in the parent."""
    values = flat(lineage.parent.harness)
    lines = [f"What may change, one at a time, and its value in version {lineage.parent.number}:"]
    for name, (layer, meaning) in FACTORS.items():
        shown = "see below" if name == "knobs" else json.dumps(values[name])
        lines.append(f"- {name} ({layer}; {meaning}): {shown}")
    if lineage.switch:
        lines.append(f"These layers failed lately, try others: {', '.join(lineage.switch)}.")
    lines.append("Knobs:\n" + lineage.space.project(lineage.parent.harness.knobs).describe())
    return "\n".join(lines)


def signs(situation: Situation) -> str:
    """Alarms, and all readings."""
    known = {name: v for name, v in situation.values.items() if not name.startswith("recipe.")}
    if not known:
        return "No diagnostic has anything to say about the parent yet."
    alarms = [f"- {alarm.words}" for alarm in situation.alarms] or ["- none"]
    readings = ", ".join(f"{name} {value:.3g}" for name, value in known.items())
    return "\n".join(["Alarms of the parent:", *alarms, f"All its readings: {readings}"])


def listed(lineage: Lineage) -> str:
    """One line per version."""
    lines = [line(one, lineage.measured.get(one.number)) for one in lineage.versions]
    return "\n".join(["Versions so far:", *lines])


def line(version: Version, measured: Round | None) -> str:
    """A version, what became of it, and its dev rate: the gate's numbers are not for trainers."""
    parent = "" if version.parent is None else f" from {version.parent}"
    change = "the start"
    if version.merged:
        change = f"merge of {' and '.join(map(str, version.merged))}"
    elif version.patch:
        value = cut(clean(json.dumps(version.patch.value)), 60)
        change = f"{version.patch.factor} = {value}"
    words = f"; {counted(pooled(measured.dev))} on dev" if measured else ""
    if version.verdict == "rejected":
        words = f": {cut(clean(version.words), WORDS)}"
    return f"- version {version.number}{parent}: {change}; {version.verdict or 'open'}{words}"


def skills_here(lineage: Lineage, situation: Situation, library: SkillLibrary) -> str:
    """The skills that apply, and what they warn of."""
    fitting = library.matching(lineage.domain, situation)
    lines = [told(skill, lineage.domain) for skill in fitting if skill.trigger] or ["- none"]
    warned = [
        f"- {skill.name}: not {skill.factor}: {clean(skill.summary)}"
        for skill in library.warning(lineage.domain, situation)
    ]
    against = ["What they warn of:", *warned] if warned else []
    return "\n".join(["Skills whose triggers hold, best first:", *lines, *against])


def told(skill: Skill, domain: str) -> str:
    """A skill and its record in one line."""
    held, failed = skill.held(), skill.failed()
    record = f"held {held}, failed {failed}; here {skill.held(domain)} and {skill.failed(domain)}"
    return f"- {skill.name} ({skill.factor}): {clean(skill.summary)} [{record}]"
