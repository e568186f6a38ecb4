"""Lines of text as a picture: what is right in green, what is wrong in red."""

from collections.abc import Callable, Iterable, Mapping
from html import escape
from pathlib import Path

from coevolve.core.errors import UserError

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


def draw_file(path: Path, endings: Mapping[str, Callable[[], str | None]]) -> None:
    """Write a picture in the way that its ending asks for: the text given, or by itself."""
    if path.suffix not in endings:
        raise UserError(f"cannot draw {path}: the name must end in {' or '.join(endings)}")
    try:
        drawn = endings[path.suffix]()
        if drawn is not None:
            path.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None


def pieces(line: str) -> list[str]:
    """A line cut to the width, whatever is in it."""
    return [line[at : at + WIDTH] for at in range(0, len(line), WIDTH)] or [""]


def clean(line: str) -> str:
    """Text that any reader of XML takes."""
    return escape(
        "".join(mark if mark.isprintable() else "\N{REPLACEMENT CHARACTER}" for mark in line)
    )
