"""The tools of a model that trains: each reads, none writes.

Invariant: whatever is asked, the answer is a text of bounded length; evidence is only reached
through the lineage's locked connection.
"""

import json
from typing import Any, Literal

from pydantic import Field

from coevolve.core.errors import CoevolveError, UserError
from coevolve.core.fence import clean, cut, fenced
from coevolve.core.names import did_you_mean, lookup
from coevolve.core.rollout import Value
from coevolve.diagnostics.connection import Answer
from coevolve.diagnostics.health import behind_sql, readings_at
from coevolve.diagnostics.views import quoted
from coevolve.engineers.base import View
from coevolve.engineers.brief import in_a_line, listed
from coevolve.engineers.fill import with_patch
from coevolve.engineers.library import SkillLibrary, as_toml
from coevolve.engineers.reach import apply
from coevolve.engineers.rules import warned_of, warnings
from coevolve.engineers.situation import situation_of
from coevolve.harness.diagnostic import Diagnostic
from coevolve.harness.patch import FACTORS, Patch, flat

REPLY_CHARACTERS = 2_400
ROWS, ROLLOUTS, MOST_DIAGNOSTICS = 40, 2, 4
MESSAGE_CHARACTERS = 700


class Change(Value):
    """A patch as a model writes it."""

    factor: str = Field(json_schema_extra={"enum": list(FACTORS)})
    value: int | float | str | dict[str, float] | list[dict[str, Any]]
    hypothesis: str = Field(min_length=1, max_length=1_000)
    metric: str = Field(default="valid", max_length=64)
    direction: Literal["up", "down"] = "up"
    least: float = Field(default=0.0, ge=0, le=1e6)
    skill: str = Field(default="", max_length=64)


class Question(Value):
    """A diagnostic as a model writes it."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")
    question: str = Field(min_length=1, max_length=200)
    sql: str = Field(min_length=1, max_length=4_000)
    direction: Literal["above", "below"] = "above"


class Call(Value):
    """One use of a tool."""

    tool: Literal["query", "rollouts", "lineage", "skills", "backtest", "diagnostic", "propose"]
    sql: str = Field(default="", max_length=4_000)
    name: str = Field(default="", max_length=300)
    version: int | None = None
    patch: Change | None = None
    diagnostic: Question | None = None


class LastCall(Value):
    """What may be said when all other calls are used up."""

    tool: Literal["propose"]
    patch: Change


class Tools:
    """Answers calls about one view."""

    def __init__(self, view: View, library: SkillLibrary, author: str, seed: int) -> None:
        self.view, self.library, self.author = view, library, author
        self.diagnostics: dict[str, Diagnostic] = {}
        """What was proposed besides a patch, by name."""
        self.situation = situation_of(view.findings, view.versions, view.parent.number)
        self.taboo = warnings(library.warning(view.domain, self.situation), view, seed)

    def answer(self, call: Call) -> str:
        """What a tool says; an error of ours is an answer too."""
        try:
            match call.tool:
                case "query":
                    text = data(table(self.view.ask(call.sql)))
                case "rollouts":
                    text = self.rollouts(call.name, call.version)
                case "lineage":
                    text = self.versions(call.version)
                case "skills":
                    text = self.skills(call.name)
                case "diagnostic":
                    text = self.asked(call.diagnostic)
                case _:
                    tried = self.view.backtest(self.patch_of(call.patch))
                    text = f"The patch can be applied. Backtest:\n{data(json.dumps(tried))}"
        except CoevolveError as error:
            text = f"error:\n{data(str(error))}"
        return cut(text, REPLY_CHARACTERS)

    def patch_of(self, change: Change | None) -> Patch:
        """The patch that a model means, if it may be made; a `UserError` says why not."""
        if change is None:
            raise UserError("`patch` is missing")
        view, value = self.view, change.value
        lookup("factor", change.factor, dict.fromkeys(view.factors))
        if change.factor == "knobs":
            if not isinstance(value, dict):
                raise UserError('knobs must be an object of numbers, such as {"name": 0.3}')
            before = view.incumbent
            if not value.keys() & view.space.knobs.keys():
                raise UserError(f"none of these knobs exists: {', '.join(value)[:100]}")
            knobs = apply(value, before, view.reach)
            if not knobs.difference(before):
                raise UserError("these knobs change nothing")
            value = dict(knobs)
        fields = change.model_dump(exclude={"skill", "value"})
        fields["hypothesis"] = clean(change.hypothesis) or "no reason given"
        patch = Patch(**fields, value=value, author=self.author)
        known = {one.diagnostic.name for one in view.findings}
        if patch.metric not in {"valid", "optimal", "reward", *known}:
            hint = did_you_mean(patch.metric, ["valid", "optimal", "reward", *known])
            raise UserError(f"'{clean(patch.metric)}' is no metric{hint}")
        after = with_patch(view.parent.harness, patch, view.components)
        # As it was read, so that no spelling of a value hides what it is.
        patch = patch.model_copy(update={"value": flat(after)[patch.factor]})
        for version in view.versions:
            if version.harness.digest() == after.digest():
                raise UserError(
                    f"version {version.number} was trained so already: {version.verdict}"
                )
        for past in view.refused:
            if past.harness.digest() == after.digest():
                raise UserError(f"that was proposed already, and refused: {past.words}")
        if skill := warned_of(patch, self.taboo, view):
            raise UserError(f"the skill {skill.name} warns of it: {skill.summary}")
        return patch

    def asked(self, question: Question | None) -> str:
        """What a new diagnostic reads of every version; it is tried once versions are judged."""
        if question is None:
            raise UserError("`diagnostic` is missing")
        if question.name in {one.diagnostic.name for one in self.view.findings}:
            raise UserError(f"there is a diagnostic '{question.name}' already; find another name")
        if len(self.diagnostics) >= MOST_DIAGNOSTICS and question.name not in self.diagnostics:
            raise UserError(f"{MOST_DIAGNOSTICS} diagnostics are enough")
        made = Diagnostic(
            layer="behaviour", domains=(self.view.domain,), provenance=f"by {self.author}",
            **{**question.model_dump(), "question": clean(question.question) or question.name},
        )  # fmt: skip
        readings = self.view.read(made)
        if not readings:
            raise UserError("it reads nothing of any version")
        self.diagnostics[made.name] = made
        found = ", ".join(f"version {one.version} {one.value:.4g} (n {one.n})" for one in readings)
        return f"Noted; it is kept if it tells good versions from bad ones. Readings: {found}"

    def rollouts(self, name: str, version: int | None) -> str:
        """One rollout by its id, or some behind a diagnostic."""
        conditions = {one.diagnostic.name: one.diagnostic for one in self.view.findings}
        if name in conditions and not conditions[name].rollouts:
            raise UserError(f"'{name}' is about all rollouts of a version; use `query`")
        ids = [name]
        if name in conditions:
            number = self.view.parent.number if version is None else version
            sql = behind_sql(conditions[name], number, ROLLOUTS)
            ids = [str(row[0]) for row in self.view.ask(sql).rows]
        texts = [self.rollout(one) for one in ids]
        return "\n".join(texts) or f"no rollout of version {version} is behind it"

    def rollout(self, name: str) -> str:
        """What was said in one rollout."""
        facts = self.view.ask(
            f"SELECT reward, valid, failure, stop, turns, completion_tokens FROM rollouts "
            f"WHERE id = {quoted(name)}"
        )
        if not facts.rows:
            raise UserError(f"'{name:.80}' is no diagnostic and no id of a rollout")
        said = self.view.ask(
            f"SELECT role, text FROM messages WHERE id = {quoted(name)} ORDER BY position"
        )
        parts = [data(f"{name}: {table(facts)}")]
        parts += [fenced(f"{role}:\n{text}", MESSAGE_CHARACTERS) for role, text in said.rows]
        return "\n".join(parts)

    def versions(self, number: int | None) -> str:
        """All versions, or one with its harness and readings."""
        found = {one.number: one for one in self.view.versions}
        if number is None:
            return listed(self.view)
        if number not in found:
            raise UserError(f"there is no version {number}; there are {', '.join(map(str, found))}")
        version = found[number].model_dump(mode="json", exclude={"words"})  # those tell of the gate
        readings = {k: round(v, 4) for k, v in readings_at(self.view.findings, number).items()}
        return data(json.dumps({**version, "readings": readings}))

    def skills(self, name: str) -> str:
        """One skill with its record, without the gate's numbers, or a list."""
        if name:
            told = {n: one for n, one in self.library.skills.items() if not one.quarantined}
            skill = lookup("skill", name, told)
            none = {"gain": None, "low": None, "high": None, "n": 0}
            record = tuple(one.model_copy(update=none) for one in skill.evidence)
            return data(as_toml([skill.model_copy(update={"evidence": record})]).decode())
        fitting = self.library.matching(self.view.domain, self.situation)
        return data("\n".join(in_a_line(skill, self.view.domain) for skill in fitting))


def data(text: str) -> str:
    """What others wrote or named, as long as a reply may be."""
    return fenced(text, REPLY_CHARACTERS - 60)


def table(answer: Answer) -> str:
    """An answer in lines."""
    lines = [" | ".join(answer.columns)]
    lines += [" | ".join(cut(str(value), 80) for value in row) for row in answer.rows[:ROWS]]
    left = len(answer.rows) - ROWS
    if left > 0 or answer.cut:
        lines.append(f"({max(left, 1)} or more rows left out)")
    return "\n".join(lines)
