"""The table that people read: a line per row, the notes of each section below."""

import json
import sys
from pathlib import Path

from measure import Row, Section
from rich import box
from rich.console import Console
from rich.table import Table

WIDTH = 150
"""Columns, also where the output is no terminal."""
VERDICTS = {True: "pass", False: "FAIL", None: ""}


def number(value: float) -> str:
    """Four digits at most, or a whole number with its thousands apart."""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) >= 100 else f"{value:.3g}"


def target(row: Row) -> str:
    if row.least_ratio is not None:
        return f">= {row.least_ratio:g}x"
    if row.least is not None:
        return f">= {number(row.least)}"
    return "" if row.most is None else f"<= {number(row.most)}"


def print_table(
    sections: list[Section], title: str = "The lake and its peers, one core, CPU time"
) -> None:
    """Print all rows, then all notes; our number is not repeated for each of its peers."""
    table = Table(title=title, box=box.SIMPLE_HEAD)
    for heading in ("what", "ours", "", "peer", "peer's", "ratio", "target", ""):
        right = heading in ("ours", "peer's", "ratio", "target")
        table.add_column(heading, justify="right" if right else "left", no_wrap=heading != "what")
    for section in sections:
        table.add_row(f"[bold]{section.title}")
        before = None
        for row in section.rows:
            again = before is not None and (row.what, row.ours) == (before.what, before.ours)
            table.add_row(
                "" if again else row.what,
                "" if again else number(row.ours),
                "" if again else row.unit,
                row.peer,
                "" if row.theirs is None else number(row.theirs),
                "" if row.ratio is None else f"{number(row.ratio)}x",
                target(row),
                VERDICTS[row.passed],
            )
            before = row
        table.add_section()
    console = Console(width=WIDTH, highlight=False)
    console.print(table)
    for section in sections:
        for note in section.notes:
            console.print(f"{section.title}: {note}", soft_wrap=True)


def conclude(section: Section, title: str, file: Path | None) -> None:
    """Print a section, keep its numbers if a file is given, and fail if a target is missed."""
    print_table([section], title)
    if file:
        facts = {"rows": [row.as_json() for row in section.rows], "details": section.details}
        file.write_text(json.dumps(facts, indent=1))
    if any(row.passed is False for row in section.rows):
        sys.exit(1)
