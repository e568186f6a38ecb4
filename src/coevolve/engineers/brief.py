"""What a model that trains is told before it asks anything: the parent, its signs, the view.

Invariant: outside of fences stand our own words only, and the whole keeps to its budget.
"""

import json
from collections.abc import Sequence

from coevolve.core.fence import cut
from coevolve.domains.change import patch_words
from coevolve.engineers.base import View
from coevolve.engineers.breakdown import reason
from coevolve.engineers.context import (
    CHARACTERS_PER_TOKEN,
    KNOBS_CHARACTERS,
    newest,
    refusal,
    remark,
    under,
)
from coevolve.engineers.language import described, filters, functions, python
from coevolve.engineers.library import SkillLibrary
from coevolve.engineers.rules import BORROW_AFTER, REMOVE_AFTER
from coevolve.engineers.signals import counted
from coevolve.engineers.situation import Situation
from coevolve.engineers.terms import mix, terms
from coevolve.harness.patch import Patch, flat
from coevolve.harness.reward import FACTS
from coevolve.harness.skill import Skill
from coevolve.harness.version import Version
from coevolve.store.cells import pooled

GOES_ON, ANEW = "on from its parent's weights", "from the first policy's weights"
SEEN = 0.005
"""A change of a reading that is worth a word."""
WORDS = 160
"""Characters that are shown in a list of why a patch was refused."""
NOTEBOOK_CHARACTERS = 6_000
"""Of the reader's own earlier work, the newest first."""
MOST_REFUSED = 12
"""Refused patches that are listed: the newest."""


def briefing(
    view: View, reader: str, situation: Situation, library: SkillLibrary, budget_tokens: int
) -> str:
    """Everything at a glance; the longest parts are cut first."""
    budget = budget_tokens * CHARACTERS_PER_TOKEN
    parts = [
        about(view),
        terms(view),
        standing(view),
        notebook(view, reader),
        signs(situation),
        listed(view),
        skills_here(view, situation, library),
        factors(view),
    ]
    share = budget // len(parts)
    spare = sum(max(0, share - len(part)) for part in parts)
    parts = [cut(part, share + spare) if len(part) > share else part for part in parts]
    return "\n\n".join([*parts, *remark(view)])


def about(view: View) -> str:
    """The domain, and what a reward may be made of."""
    names = {**view.components, **FACTS}
    lines = [f"Domain: {view.domain}", *(f"- {name}: {text}" for name, text in names.items())]
    lines.append(f"Its own reward is called `reward`; the reward now: {view.parent.harness.reward}")
    told = data("The domain, and what a reward may use", lines)
    return f"{told}\nExpressions have {functions()}\n{python()}"


def standing(view: View) -> str:
    """Where the run stands, and what failures ask for."""
    lines, found, recipe = [], view.standing, view.parent.harness.recipe
    if found:
        spread = f"{100 * found.noise:.1f} points" if found.noise else "not known"
        budget = ", ".join(f"{value:,.0f} {name}" for name, value in found.budget.items())
        lines = [
            f"- The untrained policy reaches about {found.base:.0%} on tasks like those that "
            f"decide. A version is judged by {found.gate} attempts there.",
            f"- A version is trained {GOES_ON if found.goes_on else ANEW}. Dev tasks and those "
            f"that decide are answered at temperature {found.temperature:g}, whatever training "
            "draws at.",
            f"- Of what is proposed, {found.width} a generation is trained, in order: what does "
            "not pass its backtest is left out, and of knobs one design is tried. Two siblings "
            "that were better beyond noise by other factors are merged, which counts as a version.",
            f"- Two trainings of the same harness end apart by (one standard deviation): {spread}.",
            f"- {found.left} more versions may be trained, each with {recipe.steps} steps of "
            f"{recipe.tasks} tasks x {recipe.group}; all draw as many rollouts."
            + (f" Left of the budget: {budget}." if budget else ""),
        ]
    if view.failures:
        lines.append(f"- Generations in a row without anything to keep: {view.failures}.")
    if view.failures >= BORROW_AFTER:
        lines.append("- So look at what held in other domains (`skills`).")
    if view.failures >= REMOVE_AFTER:
        lines.append("- So rather take something away than add to it.")
    return "\n".join(["Where the run stands:", *(lines or ["- at its beginning"])])


def notebook(view: View, reader: str) -> str:
    """What the reader did in earlier generations."""
    pages = view.notebooks.get(reader, ())
    if not pages:
        return "Your notebook is empty: this is your first generation."
    return data("Your notebook", newest(pages, NOTEBOOK_CHARACTERS, "generations"))


def data(heading: str, lines: Sequence[str]) -> str:
    """What others wrote or named, under words of ours."""
    return under(heading, "\n".join(lines), KNOBS_CHARACTERS)


def factors(view: View) -> str:
    """What may change, and what it is in the parent."""
    values = flat(view.parent.harness)
    heading = f"What may change, one at a time, and its value in version {view.parent.number}"
    lines = []
    for name in view.factors:
        shown = "see below" if name == "knobs" else json.dumps(values[name])
        lines.append(f"- {name} ({described(name)}): {shown}")
    if view.switch:
        lines.append(f"These layers failed lately, try others: {', '.join(view.switch)}.")
    if "filters" in view.factors:
        lines += ["Filters:", *filters()]
    lines.append("Knobs:\n" + view.space.project(view.parent.harness.knobs).describe(mix(view)))
    return data(heading, lines)


def signs(situation: Situation) -> str:
    """Alarms, and all readings."""
    known = {
        name: value
        for name, value in situation.values.items()
        if not name.startswith("recipe.") and not name.endswith((".rises", ".falls"))
        and not (name.endswith(".change") and abs(value) < SEEN)
    }  # fmt: skip
    if not known:
        return "No diagnostic has anything to say about the parent yet."
    alarms = [f"- {alarm.words}" for alarm in situation.alarms] or ["- none"]
    readings = ", ".join(f"{name} {value:.3g}" for name, value in known.items())
    return data("Alarms of the parent", [*alarms, f"All its readings: {readings}"])


def listed(view: View) -> str:
    """One line per version."""
    lines = [line(view, one) for one in view.versions]
    refused = [
        refusal(view, one)
        if one.patch.factor == "knobs"
        else f"- {changed(one.patch)}: {cut(one.words, WORDS)}"
        for one in view.refused[-MOST_REFUSED:]
    ]
    tried = ["Proposed before and not trained:", *refused] if refused else []
    return data("Versions so far", [*lines, *tried])


def line(view: View, version: Version) -> str:
    """A version, what became of it, and its dev rate: the gate's numbers are not for engineers."""
    measured = view.measured.get(version.number)
    parent = "" if version.parent is None else f" from {version.parent}"
    change = "the start"
    if version.merged:
        change = f"merge of {' and '.join(map(str, version.merged))}"
    elif version.patch and version.parent is not None and version.patch.factor == "knobs":
        before = {one.number: one for one in view.versions}[version.parent].harness
        change = patch_words(version.patch, before, view.space)
    elif version.patch:
        change = changed(version.patch)
    elif version.parent is not None:
        change = "the same harness again"
    words = f"; {counted(pooled(measured.dev))} on dev" if measured else ""
    became = f"{version.verdict or 'open'}{reason(measured) if measured else ''}"
    return f"- version {version.number}{parent}: {change}; {became}{words}"


def changed(patch: Patch) -> str:
    return f"{patch.factor} = {cut(json.dumps(patch.value), 60)}"


def skills_here(view: View, situation: Situation, library: SkillLibrary) -> str:
    """The skills that apply, and what they warn of."""
    fitting = library.matching(view.domain, situation)
    lines = [in_a_line(skill, view.domain) for skill in fitting if skill.trigger] or ["- none"]
    warned = [
        f"- {skill.name}: not {skill.factor}: {skill.summary}"
        for skill in library.warning(view.domain, situation)
    ]
    against = ["What they warn of:", *warned] if warned else []
    return data("Skills whose triggers hold, best first", [*lines, *against])


def in_a_line(skill: Skill, domain: str) -> str:
    """A skill and its record in one line."""
    record = "; ".join(
        f"{where}held {skill.held(name)}, failed {skill.failed(name)} of {len(skill.trials(name))}"
        for where, name in (("", ""), ("here ", domain))
    )
    return f"- {skill.name} ({skill.factor}): {skill.summary} [{record}]"
