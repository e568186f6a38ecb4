"""Lines of text as a picture: what is right in green, what is wrong in red."""

from collections.abc import Iterable
from html import escape

WIDTH = 100
"""Characters of a line before it is cut."""
LINE, LETTER, MARGIN = 18, 8, 16
COLOURS = {"+": "#1a7f37", "-": "#b42318", "@": "#6639ba"}
"""By the first character."""


def svg_of(lines: Iterable[str]) -> str:
    """The picture of some lines."""
    shown = [part for line in lines for part in pieces(line)]
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
    """A line cut to the width, whatever is in it."""
    return [line[at : at + WIDTH] for at in range(0, len(line), WIDTH)] or [""]


def clean(line: str) -> str:
    """Text that any reader of XML takes."""
    return escape(
        "".join(mark if mark.isprintable() else "\N{REPLACEMENT CHARACTER}" for mark in line)
    )
