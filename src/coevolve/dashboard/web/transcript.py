"""A rollout told turn by turn: who said what, which tools were called, and what was edited.

Invariant: every text of it is cleaned of hidden characters and of bounded length; escaping is the
templates' work.
"""

from typing import Any, NamedTuple

from coevolve.dashboard.text import Line, diff, written
from coevolve.domains.swe.calls import read_calls

MOST_TURNS = 200


class Edit(NamedTuple):
    """What is replaced in a file, as a diff."""

    path: str
    lines: tuple[Line, ...]


class Turn(NamedTuple):
    """One message."""

    role: str
    text: str
    edits: tuple[Edit, ...] = ()
    calls: tuple[str, ...] = ()
    """Tools that it calls, or whose answer it is, with how that went."""
    answer: bool = False
    """The last that the policy said."""


def turns_of(rollout: dict[str, Any]) -> list[Turn]:
    """All messages of a rollout, in order."""
    messages = rollout["messages"][:MOST_TURNS]
    last = max((i for i, m in enumerate(messages) if m["role"] == "assistant"), default=-1)
    results = [
        f"{call.get('tool', '?')}: {'worked' if call.get('ok') else 'failed'}"
        for call in rollout["details"].get("calls") or ()
        if isinstance(call, dict)
    ]
    found, asked = [], 0
    before: tuple[str, ...] = ()
    for index, message in enumerate(messages):
        role, text = message["role"], message["content"]
        edits: tuple[Edit, ...] = ()
        calls: tuple[str, ...] = ()
        if role == "assistant":
            made = read_calls(text)
            calls = tuple(written(call.tool or call.problem)[:200] for call in made)
            edited = [call.arguments for call in made if call.tool == "edit"]
            edits = tuple(
                Edit(written(one.get("path", ""))[:400],
                     diff(str(one.get("old", "")), str(one.get("new", ""))))
                for one in edited
            )  # fmt: skip
        elif role == "tool":
            calls, asked = tuple(written(one) for one in results[asked : asked + 1]), asked + 1
        elif before:  # some domains have the tools' answers said by the user
            role = "tool"
        before = calls if role == "assistant" else ()
        found.append(Turn(role, written(text), edits, calls, index == last))
    return found
