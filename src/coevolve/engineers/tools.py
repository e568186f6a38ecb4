"""The tools of a model that trains: each reads, none writes.

Invariant: whatever is asked, the answer is a text of bounded length; evidence is only reached
through the lineage's locked connection.
"""

import json

from pydantic import ValidationError

from coevolve.core.errors import CoevolveError, UserError
from coevolve.core.fence import clean, cut, fenced
from coevolve.core.names import did_you_mean, lookup
from coevolve.diagnostics.columns import MEANINGS
from coevolve.diagnostics.connection import Answer
from coevolve.diagnostics.health import behind_sql, readings_at
from coevolve.diagnostics.views import quoted
from coevolve.engineers.base import View
from coevolve.engineers.brief import in_a_line, listed
from coevolve.engineers.calls import Call, Change, Lesson, Question
from coevolve.engineers.context import differences
from coevolve.engineers.fill import with_patch
from coevolve.engineers.library import SkillLibrary, as_toml
from coevolve.engineers.reach import apply
from coevolve.engineers.rules import warned_of, warnings
from coevolve.engineers.situation import situation_of
from coevolve.harness.diagnostic import Diagnostic
from coevolve.harness.patch import Patch, flat
from coevolve.harness.skill import Skill
from coevolve.harness.version import Version

REPLY_CHARACTERS = 6_000
ROWS, ROLLOUTS, MOST_WRITTEN, MOST_NOTES = 60, 2, 4, 8
MESSAGE_CHARACTERS = 2_000


class Tools:
    """Answers calls about one view."""

    def __init__(self, view: View, library: SkillLibrary, author: str, seed: int) -> None:
        self.view, self.library, self.author = view, library.in_memory(), author
        self.diagnostics: dict[str, Diagnostic] = {}
        self.written: dict[str, Skill] = {}
        """What was proposed besides a patch, by name."""
        self.notes: list[str] = []
        self.situation = situation_of(view.findings, view.versions, view.parent.number)
        self.taboo = warnings(library.warning(view.domain, self.situation), view, seed)

    def answer(self, call: Call) -> str:
        """What a tool says; an error of ours is an answer too."""
        try:
            match call.tool:
                case "query":
                    text = data(table(self.view.ask(call.sql)))
                case "schema":
                    text = self.schema(call.name)
                case "rollouts":
                    text = self.rollouts(call)
                case "compare":
                    text = self.compare(call)
                case "lineage":
                    text = self.versions(call.version)
                case "diagnostics":
                    text = self.readings(call.name)
                case "diagnostic":
                    text = self.asked(call.diagnostic)
                case "skills":
                    text = self.skills(call.name)
                case "skill":
                    text = self.learned(call.skill)
                case "note":
                    text = self.noted(call.text)
                case _:
                    text = self.foretold(call.patch)
        except CoevolveError as error:
            text = f"error:\n{data(str(error))}"
        return cut(text, REPLY_CHARACTERS)

    def patch_of(self, change: Change | None) -> Patch:
        """The patch that a model means, if it may be made; a `UserError` says why not."""
        if change is None:
            raise UserError("`patch` is missing")
        view, value = self.view_for(change), change.value
        lookup("factor", change.factor, dict.fromkeys(view.factors))
        if change.factor == "knobs":
            if not isinstance(value, dict):
                raise UserError('knobs must be an object of numbers, such as {"name": 0.3}')
            before = view.incumbent
            if not value.keys() & view.space.knobs.keys():
                meant = [one for one in view.factors if one.rpartition(".")[2] in value]
                hint = f"; {', '.join(meant)} is a factor of its own" if meant else ""
                raise UserError(f"none of these knobs exists: {', '.join(value)[:100]}{hint}")
            knobs = apply(value, before, view.reach)
            if not knobs.difference(before):
                raise UserError("these knobs change nothing")
            value = dict(knobs)
        fields = change.model_dump(exclude={"skill", "value", "parent"})
        fields["hypothesis"] = clean(change.hypothesis) or "no reason given"
        patch = Patch(**fields, value=value, author=self.author)
        known = {one.diagnostic.name for one in view.findings}
        if patch.metric not in {"valid", "optimal", "reward", *known}:
            hint = did_you_mean(patch.metric, ["valid", "optimal", "reward", *known])
            raise UserError(f"'{clean(patch.metric)}' is not a metric{hint}")
        after = with_patch(view.parent.harness, patch, view.components)
        # As it was read, so that no spelling of a value hides what it is.
        patch = patch.model_copy(update={"value": flat(after)[patch.factor]})
        goes_on = view.standing is not None and view.standing.goes_on
        for version in () if goes_on else view.versions:
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

    def view_for(self, change: Change) -> View:
        """The view for a patch of whatever version it is a patch of."""
        other = change.parent not in (None, self.view.parent.number)
        return self.view.of(change.parent or 0) if other else self.view

    def foretold(self, change: Change | None) -> str:
        """What a patch would do to stored rollouts, and what is left of it within reach."""
        patch = self.patch_of(change)
        assert change
        tried = self.view.backtest(patch, self.view_for(change).parent.number)
        if isinstance(change.value, dict) and isinstance(patch.value, dict):
            came = {
                name: round(patch.value[name], 4)
                for name, asked in change.value.items()
                if name in patch.value and abs(patch.value[name] - asked) > 1e-3
            }
            tried |= {"within reach": came} if came else {}
        return f"The patch can be applied. Backtest:\n{data(json.dumps(tried))}"

    def schema(self, name: str) -> str:
        """The columns of one view, or all views with their columns."""
        if not name:
            return "\n".join(f"{view}: {', '.join(found)}" for view, found in MEANINGS.items())
        columns = lookup("view", name, MEANINGS)
        rows = table(self.view.ask(f"SELECT count(*) AS n FROM {name}"))
        return data("\n".join([rows, *(f"{one}: {words}" for one, words in columns.items())]))

    def compare(self, call: Call) -> str:
        """Two versions, or two rollouts, side by side."""
        if call.ids:
            return "\n".join(self.rollout(one) for one in call.ids)
        if call.version is None or call.other is None:
            raise UserError("give `version` and `other`, or two `ids` of rollouts")
        one, other = (self.version(number) for number in (call.version, call.other))
        before, after = flat(other.harness), flat(one.harness)
        changed = {
            name: {other.number: before[name], one.number: value}
            for name, value in after.items()
            if value != before[name] and name != "knobs"
        }
        knobs = (self.view.space.project(side["knobs"]) for side in (before, after))
        old, new = (readings_at(self.view.findings, at.number) for at in (other, one))
        readings = {
            name: {other.number: round(old[name], 4), one.number: round(value, 4)}
            for name, value in new.items()
            if name in old
        }
        both = f"source = 'dev' AND version IN ({other.number}, {one.number})"
        rates = self.view.ask(
            "SELECT version, count(*) AS n, avg(valid::INTEGER) AS valid, avg(optimal::INTEGER) AS "
            "optimal, avg(reward) AS reward, avg(completion_tokens) AS tokens FROM rollouts WHERE "
            f"{both} GROUP BY version ORDER BY version"
        )
        failures = self.view.ask(
            f"SELECT failure, count_if(version = {other.number}) AS in_{other.number}, "
            f"count_if(version = {one.number}) AS in_{one.number} FROM rollouts WHERE {both} AND "
            "failure IS NOT NULL GROUP BY failure ORDER BY failure"
        )
        paired = self.view.ask(
            f"SELECT count(*) AS tasks, avg(d) AS valid_{one.number}_less_{other.number}, "
            "1.96 * stddev_samp(d) / sqrt(count(*)) AS give_or_take FROM (SELECT task_id, "
            f"avg(valid::INTEGER) FILTER (WHERE version = {one.number}) - avg(valid::INTEGER) "
            f"FILTER (WHERE version = {other.number}) AS d FROM rollouts WHERE {both} "
            "GROUP BY task_id)"
        )
        parts = [table(rates), "task by task:", table(paired), table(failures)]
        told = {"harness": changed, "knobs": differences(*knobs), "readings": readings}
        return data("\n".join([*parts, json.dumps(told)]))

    def readings(self, name: str) -> str:
        """What a diagnostic asks, and what it reads of every version."""
        known = {one.diagnostic.name: one for one in self.view.findings}
        if not name:
            lines = [f"{one.diagnostic.name}: {one.diagnostic.question}" for one in known.values()]
            return data("\n".join(lines))
        found = lookup("diagnostic", name, known)
        asked = found.diagnostic.model_dump(mode="json", exclude_defaults=True)
        read = [f"version {one.version}: {one.value:.4g} (n {one.n})" for one in found.readings]
        return data("\n".join([json.dumps(asked), *read]))

    def learned(self, lesson: Lesson | None) -> str:
        """A skill that is followed once it has held."""
        if lesson is None:
            raise UserError("`skill` is missing")
        known, own = self.library.skills.get(lesson.name), f"by {self.author}"
        if known and known.provenance != own:
            raise UserError(f"'{lesson.name}' is not yours to revise; find another name")
        if len(self.written) >= MOST_WRITTEN and lesson.name not in self.written:
            raise UserError(f"{MOST_WRITTEN} skills are enough")
        fields = lesson.model_dump()
        fields |= {name: clean(fields[name]) or "?" for name in ("summary", "hypothesis")}
        try:
            made = Skill(**fields, domains=(self.view.domain,), learned=True, provenance=own)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            place = ".".join(map(str, problem["loc"]))
            raise UserError(f"it cannot be followed: {place} {problem['msg']}") from None
        self.written[made.name] = self.library.put(made)
        return "Written. Name it in a patch that does what it says: once that was kept, it counts."

    def noted(self, text: str) -> str:
        if not clean(text).strip():
            raise UserError("`text` is missing")
        if len(self.notes) >= MOST_NOTES:
            raise UserError(f"{MOST_NOTES} notes are enough for one generation")
        self.notes.append(clean(text))
        return "Noted."

    def asked(self, question: Question | None) -> str:
        """What a new diagnostic reads of every version; it is tried once versions are judged."""
        if question is None:
            raise UserError("`diagnostic` is missing")
        if question.name in {one.diagnostic.name for one in self.view.findings}:
            raise UserError(f"there is a diagnostic '{question.name}' already; find another name")
        if len(self.diagnostics) >= MOST_WRITTEN and question.name not in self.diagnostics:
            raise UserError(f"{MOST_WRITTEN} diagnostics are enough")
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

    def rollouts(self, call: Call) -> str:
        """Some rollouts in full: by their ids, by a query of ids, or behind a diagnostic."""
        ids, name = list(call.ids), call.name
        conditions = {one.diagnostic.name: one.diagnostic for one in self.view.findings}
        if name in conditions:
            if not conditions[name].rollouts:
                raise UserError(f"'{name}' is about all rollouts of a version; use `query`")
            number = self.view.parent.number if call.version is None else call.version
            ids += self.first(behind_sql(conditions[name], number, ROLLOUTS))
        elif name:
            ids.append(name)
        if call.sql:
            ids += self.first(call.sql)
        return "\n".join(map(self.rollout, ids[:ROLLOUTS])) or "there is no such rollout"

    def first(self, sql: str) -> list[str]:
        """What stands first in the rows of an answer."""
        return [str(row[0]) for row in self.view.ask(sql).rows[:ROLLOUTS]]

    def rollout(self, name: str) -> str:
        """What was said in one rollout."""
        facts = self.view.ask(
            f"SELECT reward, valid, failure, stop, turns, completion_tokens FROM rollouts "
            f"WHERE id = {quoted(name)}"
        )
        if not facts.rows:
            raise UserError(f"'{name:.80}' is neither a diagnostic nor the id of a rollout")
        said = self.view.ask(
            f"SELECT role, text FROM messages WHERE id = {quoted(name)} ORDER BY position"
        )
        parts = [data(f"{name}: {table(facts)}")]
        parts += [fenced(f"{role}:\n{text}", MESSAGE_CHARACTERS) for role, text in said.rows]
        return "\n".join(parts)

    def versions(self, number: int | None) -> str:
        """All versions, or one with its harness and readings."""
        if number is None:
            return listed(self.view)
        # Its words tell of the gate.
        version = self.version(number).model_dump(mode="json", exclude={"words"})
        used = self.view.space.project(version["harness"]["knobs"]).in_use()
        version["harness"]["knobs"] = {
            one.name: version["harness"]["knobs"].get(one.name, one.default) for one in used
        }
        readings = {k: round(v, 4) for k, v in readings_at(self.view.findings, number).items()}
        return data(json.dumps({**version, "readings": readings}))

    def version(self, number: int) -> Version:
        found = {one.number: one for one in self.view.versions}
        if number not in found:
            known = ", ".join(map(str, found))
            raise UserError(f"there is no version {number}; so far there are: {known}")
        return found[number]

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
    left = len(answer.rows) - ROWS
    lines = [f"(the first {ROWS} rows; {max(left, 1)} or more are left out)"]
    lines = lines if left > 0 or answer.cut else []
    lines.append(" | ".join(answer.columns))
    lines += [" | ".join(cut(str(value), 80) for value in row) for row in answer.rows[:ROWS]]
    return "\n".join(lines)
