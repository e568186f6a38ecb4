"""Texts on a page: what a model or a person wrote, made fit to show, and two of them as a diff.

Invariant: no text has hidden characters or is longer than a page can bear; escaping is the
templates' work.
"""

import json
import re
from difflib import unified_diff
from typing import TYPE_CHECKING, Any, NamedTuple

from coevolve.core.fence import clean, cut
from coevolve.dashboard.numbers import reading

if TYPE_CHECKING:
    from markupsafe import Markup

MOST_CHARACTERS = 20_000
"""Shown of anything that a model wrote."""
KINDS = {"+": "added", "-": "removed", "@": "hunk"}


class Line(NamedTuple):
    """A line of a diff."""

    kind: str
    """added, removed, hunk or same."""
    text: str


def written(text: object) -> str:
    """What a model or a person wrote, without hidden characters and not too long."""
    return cut(clean(str(text)[: 4 * MOST_CHARACTERS]), MOST_CHARACTERS)


def ticked(text: str) -> "Markup":
    """A sentence with what stands between backticks as code; everything is escaped."""
    from markupsafe import Markup, escape

    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if odd % 2 else escape(part)
        for odd, part in enumerate(parts)
    )


NUMBER = r"(-?[\d.]+(?:e[-+]\d+)?)"
ALARM = re.compile(rf"(warn|critical): (\w+) is {NUMBER}, (above|below) {NUMBER} \((.*)\)")


def alarm_words(text: str) -> tuple[str, str]:
    """The level of a recorded alarm, and what it says in words."""
    found = ALARM.fullmatch(text)
    if not found:
        return "warn", text
    level, name, value, how, threshold, more = found.groups()
    stands, most = (reading(float(one), name) for one in (value, threshold))
    return level, f"{name.replace('_', ' ')} {stands}, {how} {most} ({more})"


def brief(value: object, most: int = 60) -> str:
    """A value in a few characters."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        value = ", ".join(value) or "none"
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return f"{value:.4g}" if number else cut(clean(text[: 4 * most]), most)


def as_text(value: Any) -> str:
    """Any JSON value for a diff: one line per member."""
    if isinstance(value, str):
        return value
    return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True)


def diff(old: str, new: str) -> tuple[Line, ...]:
    """Two texts line by line."""
    lines = unified_diff(written(old).splitlines(), written(new).splitlines(), lineterm="", n=3)
    return tuple(Line(KINDS.get(line[:1], "same"), line) for line in list(lines)[2:])
