"""A task, an answer to it and what the tests found, for a terminal and as a picture."""

from collections.abc import Iterator
from difflib import unified_diff
from html import escape

from coevolve.core.rollout import Outcome
from coevolve.core.task import Task
from coevolve.domains.swe.work import unfold

WIDTH = 100
LINE, LETTER, MARGIN = 18, 8, 16
COLOURS = {"+": "#1a7f37", "-": "#b42318", "@": "#6639ba"}


def draw_text(task: Task, outcome: Outcome | None) -> str:
    return "\n".join(lines(task, outcome)) + "\n"


def lines(task: Task, outcome: Outcome | None) -> Iterator[str]:
    """The issue, what was broken, and the verdict."""
    unfolded = unfold(task)
    yield from task.data["issue"].split("\n")
    yield ""
    yield f"{len(unfolded.work.fail)} hidden tests of {unfolded.total} fail; the faults, mended:"
    for path, whole in unfolded.mended.items():
        before, after = unfolded.given[path].decode(), whole.decode()
        shown = unified_diff(before.split("\n"), after.split("\n"), path, path, lineterm="", n=1)
        yield from shown
    if outcome is not None:
        told = outcome.details
        yield ""
        for call in told["calls"]:
            mark = "+" if call["ok"] else "-"
            yield f"{mark} turn {call['turn']}: {call['tool']} {call.get('path', '')}".rstrip()
        yield f"{told['fixed']} of {told['fail_to_pass']} fixed, {told['lost']} lost"
        yield f"{'+ solved' if outcome.valid else '- ' + str(outcome.failure)}"


def draw_svg(task: Task, outcome: Outcome | None) -> str:
    """The same lines as a picture: what is right in green, what is wrong in red."""
    shown = [part for line in lines(task, outcome) for part in pieces(line)]
    width, height = LETTER * WIDTH + 2 * MARGIN, LINE * len(shown) + 2 * MARGIN
    rows = [
        f'<text x="{MARGIN}" y="{MARGIN + LINE * (number + 1) - 5}" '
        f'fill="{COLOURS.get(line[:1], "#1f2328")}" xml:space="preserve">{clean(line)}</text>'
        for number, line in enumerate(shown)
    ]
    style = 'font-family="monospace" font-size="13"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" {style}>'
        f'<rect width="100%" height="100%" fill="#ffffff"/>{"".join(rows)}</svg>\n'
    )


def pieces(line: str) -> list[str]:
    return [line[at : at + WIDTH] for at in range(0, len(line), WIDTH)] or [""]


def clean(line: str) -> str:
    """Text that any reader of XML takes."""
    return escape(
        "".join(mark if mark.isprintable() else "\N{REPLACEMENT CHARACTER}" for mark in line)
    )
