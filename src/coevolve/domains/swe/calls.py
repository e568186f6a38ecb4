"""Tool calls in plain text: code blocks that hold one JSON object each, as any policy can write.

Invariant: whatever the text, reading it takes a time that grows with its length and raises nothing.
"""

import json
from typing import Any, NamedTuple

from coevolve.domains.code.answer import blocks

LONGEST = 200_000
"""Characters of a turn that are read."""
MOST = 20
"""Calls in one turn."""
LANGUAGES = ("tool", "json", "")
TOOLS: dict[str, dict[str, tuple[type, bool]]] = {
    "list": {"path": (str, False)},
    "search": {"text": (str, True), "path": (str, False)},
    "read": {"path": (str, True), "first": (int, False), "count": (int, False)},
    "edit": {"path": (str, True), "old": (str, True), "new": (str, True), "line": (int, False)},
    "run": {"command": (str, True)},
    "submit": {},
}
"""Names of tools with their arguments: type, and whether it must be given."""


class Call(NamedTuple):
    """One call as it was written."""

    tool: str
    arguments: dict[str, Any]
    problem: str = ""
    """Why it cannot be made, empty if it can."""


def read_calls(text: str) -> list[Call]:
    """The calls of a turn, in order; blocks of other languages are just text."""
    if len(text) > LONGEST:
        return [Call("", {}, f"a turn of {len(text)} characters; at most {LONGEST} are read")]
    found, open_ended = blocks(text)
    written = [block.code for block in found if block.language in LANGUAGES]
    calls = [call for code in written if (call := read_call(code)) is not None]
    if not found and text.strip().startswith("{"):
        call = read_call(text)
        calls += [call] if call else []
    if open_ended:
        calls.append(Call("", {}, "the last block is never closed"))
    if len(calls) > MOST:
        return [*calls[:MOST], Call("", {}, f"more than {MOST} calls in one turn")]
    return calls


def read_call(code: str) -> Call | None:
    """One call; None for a block that is nothing like one."""
    if not code.strip().startswith("{"):
        return None
    try:
        value = json.loads(code)
    except (ValueError, RecursionError) as error:
        return Call("", {}, f"not one JSON object: {error}")
    if not isinstance(value, dict) or not isinstance(value.get("tool"), str):
        return Call("", {}, 'no "tool" in the object')
    tool = value.pop("tool")
    if tool not in TOOLS:
        return Call("", {}, f"no tool {tool!r:.40}; there are {', '.join(TOOLS)}")
    return Call(tool, value, problem_of(tool, value))


def problem_of(tool: str, arguments: dict[str, Any]) -> str:
    """What is wrong with the arguments of a call."""
    known = TOOLS[tool]
    for name in arguments:
        if name not in known:
            return f"{tool} takes no argument {name!r:.40}"
    for name, (kind, needed) in known.items():
        if name not in arguments:
            if needed:
                return f'{tool} needs "{name}"'
            continue
        value = arguments[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            return f'"{name}" of {tool} must be {"text" if kind is str else "a whole number"}'
        if isinstance(value, str) and ("\x00" in value or not encodable(value)):
            return f'"{name}" of {tool} holds characters that no file can hold'
    return ""


def encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def write_call(tool: str, **arguments: object) -> str:
    """A call as a policy writes it."""
    return f"```tool\n{json.dumps({'tool': tool, **arguments})}\n```"
