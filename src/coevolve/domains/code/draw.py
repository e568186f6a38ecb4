"""A task, an answer to it and what the tests found, for a terminal and as a picture."""

from html import escape
from textwrap import wrap

from coevolve.core.task import Task
from coevolve.domains.code import answer
from coevolve.domains.code.judge import Judged, judge, total_of
from coevolve.domains.code.prompt import question

WIDTH = 96
LINE, LETTER, MARGIN = 18, 8, 16
COLOURS = {"+": "#1a7f37", "-": "#b42318"}


def draw_text(task: Task, text: str | None) -> str:
    return "\n".join(lines(task, text)) + "\n"


def lines(task: Task, text: str | None) -> list[str]:
    """The task, the program in the answer, and a line for each test."""
    found = [part for line in question(task).split("\n") for part in wrap(line, WIDTH) or [""]]
    found += ["", f"{total_of(task)} hidden tests"]
    if text is None:
        return found
    try:
        code = answer.extract(text)
    except answer.AnswerError as error:
        return [*found, "", f"- {error.failure}: {error}"]
    found += ["", *(f"    {line}" for line in code.rstrip().split("\n")), ""]
    return found + results(judge(task, code))


def results(judged: Judged) -> list[str]:
    found = []
    for number, verdict in enumerate(judged.verdicts, 1):
        if verdict.failure is None:
            found.append(f"+ test {number} ({verdict.kind})")
        else:
            found.append(f"- test {number} ({verdict.kind}): {verdict.failure}: {verdict.message}")
    left = judged.total - len(judged.verdicts)
    if left:
        found.append(f"- {left} more tests were not reached and count as failed")
    return [*found, f"{judged.passed} of {judged.total} tests passed"]


def draw_svg(task: Task, text: str | None) -> str:
    """The same lines as a picture: what passed in green, what failed in red."""
    shown = [part for line in lines(task, text) for part in pieces(line)]
    width, height = LETTER * WIDTH + 2 * MARGIN + 40, LINE * len(shown) + 2 * MARGIN
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
    """A line cut to the width, whatever is in it."""
    return [line[at : at + WIDTH] for at in range(0, len(line), WIDTH)] or [""]


def clean(line: str) -> str:
    """Text that any reader of XML takes."""
    return escape(
        "".join(mark if mark.isprintable() else "\N{REPLACEMENT CHARACTER}" for mark in line)
    )
