"""Boards and plans as SVG: self-contained, animated without script.

Only numbers, colours and letters made here reach the markup; words pass through `escape`.
"""

from collections.abc import Iterable
from xml.sax.saxutils import escape

from coevolve.domains.lake.board import Board, Plan
from coevolve.domains.lake.draw import look
from coevolve.domains.lake.draw.look import CARD, INK, Layout, layout_of, printable
from coevolve.domains.lake.draw.paint import paint_agent, paint_ground, paint_marks
from coevolve.domains.lake.draw.scene import Point, Scene, scene_of

STEP_S, BEGIN_S, HOLD_S = 0.5, 0.7, 1.5
"""Seconds of a time step, before the first and after the last."""
MAX_CELL = 52
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"


def draw_svg(board: Board, plan: Plan | None = None) -> str:
    """A picture of a board; with a plan, a film of it that stops at the first failure."""
    scene = scene_of(board, plan)
    layout = layout_of(scene, MAX_CELL)
    page = Page()
    page.parts += [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {layout.width} {layout.height}" '
        f'width="{layout.width}" height="{layout.height}" role="img" font-family="{FONT}">',
        f"<title>{escape(printable('; '.join(scene.caption)))}</title>",
        f'<rect width="{layout.width}" height="{layout.height}" rx="12" fill="{CARD}"/>',
    ]
    paint_ground(page, scene, layout)
    if layout.timeline is not None:
        add_knob(page, scene, layout, layout.timeline)
    for agent in reversed(range(board.agents)):
        add_agent(page, scene, layout, agent)
    if scene.violations:
        page.parts.append('<g class="violation">')
        paint_marks(page, scene, layout)
        page.parts.append("</g>")
    return "\n".join([*page.parts, "</svg>"]) + "\n"


def number(value: float) -> str:
    """A number with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


class Page:
    """A `Sheet` that becomes markup."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def box(
        self, x: float, y: float, width: float, height: float, *, radius: float = 0.0,
        fill: str | None = None, edge: str | None = None, thick: float = 0.0,
    ) -> None:  # fmt: skip
        """A rounded rectangle from its top left corner."""
        self.parts.append(
            f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" '
            f'height="{number(height)}" rx="{number(radius)}" {paint(fill, edge, thick)}/>'
        )

    def disc(
        self, at: Point, radius: float, fill: str | None, edge: str | None = None,
        thick: float = 0.0,
    ) -> None:  # fmt: skip
        """A circle whose edge lies half inside and half outside the radius."""
        self.parts.append(f"<circle {around(at, radius)} {paint(fill, edge, thick)}/>")

    def strokes(self, lines: Iterable[list[Point]], colour: str, thick: float) -> None:
        """Lines with round joints and ends."""
        path = "".join(
            "M" + "L".join(f"{number(x)} {number(y)}" for x, y in line) for line in lines
        )
        round_ends = 'stroke-linecap="round" stroke-linejoin="round"'
        self.parts.append(f'<path d="{path}" {paint(None, colour, thick)} {round_ends}/>')

    def words(
        self, at: Point, words: str, size: float, colour: str, *, anchor: str = "mm",
        bold: bool = False,
    ) -> None:  # fmt: skip
        """Words; `anchor` is left or middle, then middle or baseline (s), as Pillow names them."""
        y = at[1] + (0.35 * size if anchor[1] == "m" else 0)
        place = ' text-anchor="middle"' if anchor[0] == "m" else ""
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{number(at[0])}" y="{number(y)}" font-size="{number(size)}"{weight}{place} '
            f'fill="{colour}">{escape(words)}</text>'
        )

    def track(self, line: list[Point], waits: list[Point], colour: str, cell: int) -> None:
        """A half-clear path with a dot where it begins and a ring where its agent waits."""
        points = " ".join(f"{number(x)},{number(y)}" for x, y in line)
        rings = "".join(f"<circle {around(at, look.WAIT * cell)}/>" for at in waits)
        self.parts.append(
            f'<g opacity="{look.PATH_OPACITY}" {paint(None, colour, cell * 0.075)} '
            f'stroke-linecap="round" stroke-linejoin="round"><polyline points="{points}"/>{rings}'
            f'<circle {around(line[0], look.START * cell)} fill="{colour}" stroke="none"/></g>'
        )


def paint(fill: str | None, edge: str | None, thick: float) -> str:
    """How a shape is filled and edged."""
    stroke = f' stroke="{edge}" stroke-width="{number(thick)}"' if edge else ""
    return f'fill="{fill or "none"}"{stroke}'


def around(at: Point, radius: float) -> str:
    return f'cx="{number(at[0])}" cy="{number(at[1])}" r="{number(radius)}"'


def add_agent(page: Page, scene: Scene, layout: Layout, agent: int) -> None:
    """An agent, and its motion."""
    stops = [layout.place(scene.position(agent, time)) for time in scene.times]
    places = [" ".join(map(number, at)) for at in stops]
    motion = film(scene, "Transform", 'attributeName="transform" type="translate"', places)
    page.parts.append(f'<g transform="translate({places[0]})">')
    paint_agent(page, (0, 0), agent, layout.cell)
    page.parts.append(f"{motion}</g>")


def add_knob(page: Page, scene: Scene, layout: Layout, y: int) -> None:
    """The knob that moves along the time line."""
    places = [number(layout.moment(scene, time)) for time in scene.times]
    motion = film(scene, "", 'attributeName="cx"', places)
    page.parts.append(f'<circle cx="{places[0]}" cy="{y}" r="5" fill="{INK}">{motion}</circle>')


def film(scene: Scene, kind: str, attributes: str, values: list[str]) -> str:
    """An endless animation through values at the times of the film."""
    if len(set(values)) == 1:
        return ""
    moments = [BEGIN_S + STEP_S * time for time in scene.times]
    total = moments[-1] + HOLD_S
    keys = ";".join(f"{moment / total:.4f}" for moment in [0, *moments, total])
    path = ";".join([values[0], *values, values[-1]])
    splines = ";".join([".4 0 .6 1"] * (len(values) + 1))
    return (
        f'<animate{kind} {attributes} values="{path}" keyTimes="{keys}" keySplines="{splines}" '
        f'calcMode="spline" dur="{number(total)}s" repeatCount="indefinite"/>'
    )
