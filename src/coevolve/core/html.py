"""Small tables for notebooks; whatever stands in a cell is escaped."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

MOST = 160
"""Characters of a cell."""


def table(rows: Sequence[Mapping[str, Any]], title: str = "") -> str:
    """Rows below their names; the first row names the columns."""
    names = list(rows[0]) if rows else []
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        f"<tr>{''.join(f'<td>{cell(row.get(name))}</td>' for name in names)}</tr>" for row in rows
    )
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return escape(text if len(text) <= MOST else f"{text[:MOST]}…")
