"""One generation: what engineers were shown and said, what was tried, and what became of it.

Invariant: what was proposed goes through the same projection as in the run.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from coevolve.core.errors import CoevolveError
from coevolve.dashboard.knobs import harness_before
from coevolve.dashboard.record import Record
from coevolve.dashboard.text import brief, written
from coevolve.domains.change import patch_words
from coevolve.domains.knobs import Knobs
from coevolve.engineering.table import is_table
from coevolve.engineers.reach import apply
from coevolve.engineers.view import reach_of
from coevolve.evaluation.difference import stands
from coevolve.evaluation.gate import margin
from coevolve.harness.harness import Harness
from coevolve.harness.patch import Patch
from coevolve.harness.proposal import Proposal
from coevolve.harness.version import Version
from coevolve.store.lineage import Generation
from coevolve.store.phases import Tried

MOST_ASKED = 40
"""Knobs of a proposal that are listed."""


class Asked(NamedTuple):
    """One knob of a proposal: what was asked, and what came of it."""

    knob: str
    wish: str
    before: float | None
    """None for a knob that does not exist."""
    after: float | None
    unit: str = ""


class Said(NamedTuple):
    """One proposal."""

    engineer: str
    factor: str
    """What it would change; empty for nothing."""
    changed: str
    """What it came to, in a sentence."""
    expected: str
    """What it is to move."""
    explanation: str
    """In its own words; empty where those are a table of a small model."""
    answer: str
    """That table."""
    failure: str
    asked: tuple[Asked, ...]
    more: int
    """Knobs that were asked for and are not listed: not in use, or too many."""
    moved: tuple[Asked, ...]
    """Knobs that changed without being asked for: shares that fill up, and what was mended."""


class Step(NamedTuple):
    """One call of a model with tools, and what it was told."""

    tool: str
    thought: str
    call: str
    """All else that it gave the tool, as JSON."""
    answer: str
    tokens: int


class Attempt(NamedTuple):
    """One time that the engineers were asked; a person may have sent the first back."""

    number: int
    note: str
    """What a person had asked for."""
    context: dict[str, str]
    """What model engineers were shown."""
    dialogues: dict[str, tuple[Step, ...]]
    """What those with tools did then, turn by turn."""
    said: tuple[Said, ...]


class GenerationFacts(NamedTuple):
    """Everything about one generation."""

    number: int
    parent: int | None
    """The version that its patches are patches of; None: the first policy."""
    alarms: tuple[str, ...]
    check: str
    """What measuring the parent again came to."""
    attempts: tuple[Attempt, ...]
    words: str
    """What the backtests decided."""
    tried: tuple[tuple[Tried, int | None, str], ...]
    """What was tried before training, the version that it was trained as, and what it changes."""
    versions: tuple[int, ...]
    """Trained in it."""
    undecided: bool
    """Whether what was tried may still be trained."""
    learned: tuple[str, ...]
    """Skills and diagnostics that came of it."""


def generations_of(record: Record) -> tuple[GenerationFacts, ...]:
    """All generations of which anything is recorded, but for the first version's."""
    return tuple(
        generation_facts(record, one)
        for one in record.lineage.generations
        if one.check or one.diagnose or one.proposed or one.tests or one.learn
    )


def generation_facts(record: Record, one: Generation) -> GenerationFacts:
    grown = [version for version in record.lineage.versions if version.generation == one.number]
    parent = one.diagnose.parent if one.diagnose else next((v.parent for v in grown), None)
    check, harness = one.check, harness_before(record.lineage, parent)
    metric = record.lineage.plan.objective.metric
    return GenerationFacts(
        number=one.number,
        parent=parent,
        alarms=one.diagnose.alarms if one.diagnose else (),
        check=f"Version {check.version} measured again: {stands(check.rate, metric)}, before "
        f"{stands(check.before, metric)}."
        if check
        else "",
        attempts=attempts_of(record, one, harness, reach_of(record.lineage, parent)),
        words=written(one.tests.words) if one.tests else "",
        tried=tuple(
            (tried, trained_as(grown, tried), changed_by(record, tried, harness))
            for tried in one.tests.tried
        )
        if one.tests
        else (),
        versions=tuple(version.number for version in grown),
        undecided=record.lineage.undecided(one),
        learned=learned(one),
    )


def trained_as(grown: Sequence[Version], tried: Tried) -> int | None:
    """The version of a generation that a patch was trained as."""
    same = (one.number for one in grown if (one.author, one.patch) == (tried.author, tried.patch))
    return None if tried.refused else next(same, None)


def learned(one: Generation) -> tuple[str, ...]:
    """What became of skills and diagnostics, in words."""
    if one.learn is None:
        return ()
    skills = [f"skill {skill.name}" for skill in one.learn.skills]
    trials = [
        f"diagnostic {trial.diagnostic.name}: {'accepted' if trial.accepted else 'refused'}, "
        f"{trial.reason}"
        for trial in one.learn.trials
    ]
    grown = [
        f"diagnostic {diagnostic.name}, from the clean room: {diagnostic.record}"
        for diagnostic in one.learn.grown
    ]
    return tuple(written(words) for words in (*skills, *trials, *grown))


def attempts_of(
    record: Record, one: Generation, harness: Harness | None, reach: float
) -> tuple[Attempt, ...]:
    """Every time that the engineers were asked in a generation."""
    return tuple(
        Attempt(
            number,
            written(asked.note),
            {
                name: written(listed[0].shown)
                for name, listed in asked.proposals.items()
                if listed and listed[0].shown
            },
            {
                name: tuple(map(step_of, listed[0].calls))
                for name, listed in asked.proposals.items()
                if listed and listed[0].calls
            },
            tuple(
                said_by(record, name, proposal, harness, reach)
                for name, listed in asked.proposals.items()
                for proposal in listed
            ),
        )
        for number, asked in enumerate(one.proposed)
    )


def step_of(call: dict[str, Any]) -> Step:
    given = {name: value for name, value in call["arguments"].items() if name != "thought"}
    return Step(
        tool=written(call["tool"] or "not readable"),
        thought=written(call["arguments"].get("thought", "")),
        call=written(json.dumps(given, ensure_ascii=False, indent=1)) if given else "",
        answer=written(call["answer"]),
        tokens=call["tokens"],
    )


def said_by(
    record: Record, name: str, proposal: Proposal, harness: Harness | None, reach: float
) -> Said:
    """One proposal, with what it came to."""
    patch = proposal.patch
    if proposal.parent is not None:
        harness = harness_before(record.lineage, proposal.parent)
    said = proposal.stop or proposal.words or (patch.hypothesis if patch else "")
    asked, idle, moved = list[Asked](), 0, list[Asked]()
    if patch and harness and (both := projection(record, patch, harness, reach)):
        asked, idle, moved = projected(patch.value, *both)
        patch = patch.model_copy(update={"value": dict(both[1])})
    return Said(
        engineer=written(name),
        factor=written(patch.factor) if patch else "",
        changed=sentence(record, patch, harness) if patch else "",
        expected=expected(patch) if patch else "",
        explanation=in_words(said),
        answer=written(said) if is_table(said) else "",
        failure=written(proposal.failure),
        asked=tuple(asked[:MOST_ASKED]),
        more=idle + max(0, len(asked) - MOST_ASKED),
        moved=tuple(moved),
    )


def changed_by(record: Record, tried: Tried, harness: Harness | None) -> str:
    """What a patch changes of whatever it is a patch of."""
    if tried.parent is None:
        return sentence(record, tried.patch, harness)
    own = harness_before(record.lineage, tried.parent)
    return f"{sentence(record, tried.patch, own)} (of version {tried.parent})"


def sentence(record: Record, patch: Patch, harness: Harness | None) -> str:
    """What a patch changes of a harness."""
    space = record.domain.space if record.domain else None
    return written(patch_words(patch, harness or Harness(), space))


def in_words(said: str) -> str:
    """What an engineer said, if it is for people."""
    return "" if is_table(said) else written(said)


def expected(patch: Patch) -> str:
    """What a patch is to move."""
    least = f" by at least {margin(patch.least, patch.metric)}" if patch.least else ""
    return written(f"{patch.metric} {patch.direction}{least}")


def projection(
    record: Record, patch: Patch, harness: Harness, reach: float
) -> tuple[Knobs, Knobs] | None:
    """The knobs before a proposal of knobs, and what it came to, if it can be applied."""
    if patch.factor != "knobs" or record.domain is None:
        return None
    space = record.domain.space.held(record.lineage.plan.hold, harness.knobs)
    incumbent = space.project(harness.knobs)
    try:
        return incumbent, apply(patch.value, incumbent, reach)
    except (CoevolveError, AttributeError, TypeError, ValueError) as error:
        record.trouble(f"a proposal of knobs cannot be applied: {written(error)[:200]}")
        return None


def projected(
    values: Mapping[str, Any], incumbent: Knobs, after: Knobs
) -> tuple[list[Asked], int, list[Asked]]:
    """What was asked of each knob and what it came to; how many of those asked for are not in use;
    what moved besides."""
    used = {knob.name for knobs in (incumbent, after) for knob in knobs.in_use()}
    units = {name: knob.unit for name, knob in incumbent.space.knobs.items()}
    wishes = {
        name: brief(value)
        for name, value in values.items()
        if name not in incumbent or value != incumbent[name]
    }
    asked = [
        Asked(brief(name, 100), wish, incumbent.get(name), after.get(name), units.get(name, ""))
        for name, wish in wishes.items()
        if name not in incumbent or name in used
    ]
    moved = [
        Asked(name, "", old, new, units[name])
        for name, (old, new) in after.difference(incumbent).items()
        if name not in wishes
    ]
    return asked, len(wishes) - len(asked), moved
