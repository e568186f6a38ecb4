"""Tool calls are read from plain text, and nothing that is written there can do harm."""

import pytest

from coevolve.domains.swe.calls import LONGEST, MOST, read_calls, write_call


def test_calls_are_read_in_order() -> None:
    text = "First I look.\n" + write_call("list", path="") + "\nthen\n" + write_call("submit")
    assert [call.tool for call in read_calls(text)] == ["list", "submit"]
    assert read_calls('{"tool": "read", "path": "a.py", "first": 3}')[0].arguments == {
        "path": "a.py",
        "first": 3,
    }


def test_other_blocks_are_text() -> None:
    assert read_calls("```python\nprint(1)\n```\n```\nno call\n```") == []
    assert read_calls("") == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('```tool\n{"tool": "fly"}\n```', "no tool 'fly'"),
        ('```tool\n{"tool": "read"}\n```', 'read needs "path"'),
        ('```tool\n{"tool": "read", "path": 3}\n```', "must be text"),
        ('```tool\n{"tool": "read", "path": "a", "first": true}\n```', "whole number"),
        ('```tool\n{"tool": "submit", "now": 1}\n```', "takes no argument 'now'"),
        ('```tool\n{"tool": "run", "command": "a\\u0000b"}\n```', "no file can hold"),
        ('```tool\n{"tool": "run", "command": "\\ud800"}\n```', "no file can hold"),
        ('```tool\n{"tool": ["list"]}\n```', 'no "tool"'),
        ('```tool\n{"tool": "list"\n```', "not one JSON object"),
        ('```tool\n{"tool": "list"}', "never closed"),
        ('{"a":' * 5_000, "not one JSON object"),
        ("x" * (LONGEST + 1), "at most"),
    ],
)
def test_bad_calls_say_what_is_wrong(text: str, problem: str) -> None:
    assert problem in read_calls(text)[-1].problem


def test_calls_are_counted() -> None:
    calls = read_calls("\n".join([write_call("list")] * (MOST + 5)))
    assert len(calls) == MOST + 1
    assert "more than" in calls[-1].problem
