"""The calls that a model with tools may make: one form for all of them, and what each is for."""

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

from pydantic import Field

from coevolve.core.rollout import Value
from coevolve.harness.patch import FACTORS

MOST_PATCHES = 4
"""Of one proposal."""


class Change(Value):
    """A patch as a model writes it."""

    factor: str = Field(json_schema_extra={"enum": list(FACTORS)})
    value: int | float | str | dict[str, float] | list[dict[str, Any]]
    hypothesis: str = Field(min_length=1, max_length=1_000)
    parent: int | None = None
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


class Lesson(Value):
    """A skill as a model writes it: a patch for whenever certain signs show."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")
    summary: str = Field(min_length=1, max_length=300)
    trigger: str = Field(min_length=1, max_length=500)
    factor: str = Field(json_schema_extra={"enum": list(FACTORS)})
    template: dict[str, Any]
    hypothesis: str = Field(min_length=1, max_length=900)


Ending = Literal["propose", "measure", "stop"]
Tool = Literal[
    "query", "schema", "rollouts", "compare", "lineage", "diagnostics", "diagnostic", "skills",
    "skill", "backtest", "note", "propose", "measure", "stop",
]  # fmt: skip


class Call(Value):
    """One use of a tool."""

    thought: str = Field(default="", max_length=8_000)
    tool: Tool
    sql: str = Field(default="", max_length=4_000)
    name: str = Field(default="", max_length=300)
    version: int | None = None
    other: int | None = None
    ids: tuple[str, ...] = Field(default=(), max_length=2)
    patch: Change | None = None
    patches: tuple[Change, ...] = Field(default=(), max_length=MOST_PATCHES)
    diagnostic: Question | None = None
    skill: Lesson | None = None
    text: str = Field(default="", max_length=2_000)


class LastCall(Call):
    """What may be said when all other calls are used up."""

    tool: Ending


class Use(NamedTuple):
    """What a tool is for."""

    takes: tuple[str, ...]
    """Of the fields of a call."""
    example: dict[str, Any]
    words: str


PATCH = {
    "factor": "<from the list>", "value": "<its new value, whole>",
    "hypothesis": "If we change X, then Y improves, because Z",
}  # fmt: skip

USES: dict[Tool, Use] = {
    "query": Use(("sql",), {"sql": "SELECT ..."}, "one SELECT (DuckDB) over the views"),
    "schema": Use(("name",), {"name": "<view>"}, "a view's columns, their meaning, and its rows; "
        "without a name, all views"),
    "rollouts": Use(
        ("sql", "name", "version", "ids"), {"sql": "SELECT id FROM rollouts WHERE ..."},
        "what was said in the first rollouts of a query of ids, of `ids`, or behind the "
        "diagnostic `name` in a `version`",
    ),
    "compare": Use(
        ("version", "other", "ids"), {"version": 1, "other": 0},
        "two versions side by side: dev rates, also task by task, failures, harness, readings; or "
        "two rollouts by `ids`",
    ),
    "lineage": Use(("version",), {"version": 1}, "one version in full; without it, all in a line"),
    "diagnostics": Use(
        ("name",), {"name": "<diagnostic>"},
        "what a diagnostic asks, and its reading of every version; without a name, all",
    ),
    "diagnostic": Use(
        ("diagnostic",),
        {"diagnostic": {
            "name": "<new_name>", "question": "<what it asks>", "direction": "above",
            "sql": "SELECT version, <number> AS value, count(*) AS n FROM ... GROUP BY version",
        }},
        "a new sign, if others miss what you see; it is asked of one version at a time, which it "
        "sees as version 1 beside its parent 0, without names; `direction`: where it is bad, above "
        "or below",
    ),
    "skills": Use(("name",), {"name": "<skill>"}, "one skill in full; without a name, all in use"),
    "skill": Use(
        ("skill",),
        {"skill": {
            "name": "<new_name>", "summary": "<in a line>", "trigger": "entropy < 0.1",
            "factor": "recipe.temperature", "template": {"kind": "scale", "by": 1.2, "high": 1.5},
            "hypothesis": "If ..., then ..., because ...",
        }},
        "write a skill for later generations and runs, or a known name to revise one of yours",
    ),
    "backtest": Use(
        ("patch",), {"patch": PATCH},
        "what a patch would do to stored rollouts, with all measures; a reward or a filter is "
        "replayed, knobs are only checked and probed once you propose them, and of most other "
        "factors only training can tell; costs nothing. What does not pass is not trained",
    ),
    "note": Use(("text",), {"text": "..."}, "write into your notebook, which you keep, "
        "while older replies of tools are cut short"),
    "propose": Use(
        ("patches",), {"patches": [PATCH]},
        f"ends your work: up to {MOST_PATCHES} patches, the best first and others to stand by in "
        "case its backtest does not pass, each of one factor, with "
        "`parent` if it is to grow from another kept version, and `metric`, `direction`, `least` "
        "if it is to move something else than valid; `skill` if it follows one",
    ),
    "measure": Use(
        ("version", "text"), {"version": 1, "text": "<why>"},
        "ends your work: nothing is trained, and a version that may have been lucky is measured "
        "again",
    ),
    "stop": Use(("text",), {"text": "<why>"}, "ends your work: nothing is worth a try any more"),
}  # fmt: skip


def listed() -> str:
    """All tools, as a model reads of them that answers in JSON."""
    lines = [
        f"{json.dumps({'tool': name, **use.example})}  {use.words}" for name, use in USES.items()
    ]
    return "\n".join(lines)


def referred(part: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    """Those definitions of a schema that a part of it names, and what they name in turn."""
    names = re.findall(r'"#/\$defs/(\w+)"', json.dumps(part))
    found = {name: known[name] for name in names}
    while missing := set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(found))) - set(found):
        found |= {name: known[name] for name in sorted(missing)}
    return found


def functions(last: bool) -> str:
    """All tools as an address with tool calling of its own takes them, as JSON."""
    schema, endings = Call.model_json_schema(), get_args(Ending)
    found = []
    for name, use in USES.items():
        if last and name not in endings:
            continue
        taken = {"properties": {one: schema["properties"][one] for one in ("thought", *use.takes)}}
        if used := referred(taken, schema["$defs"]):
            taken["$defs"] = used
        words = f"{use.words}. Such as {json.dumps(use.example)}"
        function = {
            "name": name, "description": words, "parameters": {"type": "object", **taken},
        }  # fmt: skip
        found.append({"type": "function", "function": function})
    return json.dumps(found)
