"""Boards and plans as SVG: self-contained, animated without script.

Only numbers, colours and letters made here reach the markup; words pass through `escape`.
"""

from collections.abc import Iterator
from xml.sax.saxutils import escape

from coevolve.domains.lake.board import HOLE, Board, Plan
from coevolve.domains.lake.draw.look import (
    ALARM,
    CARD,
    DISC,
    FAINT,
    FROST,
    ICE,
    INK,
    MARK,
    PATH_OPACITY,
    RIM,
    RING,
    START,
    TEXT_SIZE,
    WAIT,
    WATER,
    WAVE,
    Layout,
    edge_of,
    fill_of,
    label_of,
    layout_of,
    letter_of,
    letter_size,
    printable,
    track,
    waits,
)
from coevolve.domains.lake.draw.scene import Mark, Scene, letters, scene_of

STEP_S, BEGIN_S, HOLD_S = 0.5, 0.7, 1.5
"""Seconds of a time step, before the first and after the last."""
MAX_CELL = 52
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"


def draw_svg(board: Board, plan: Plan | None = None) -> str:
    """A picture of a board; with a plan, a film of it that stops at the first failure."""
    scene = scene_of(board, plan)
    layout = layout_of(scene, MAX_CELL)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {layout.width} {layout.height}" '
        f'width="{layout.width}" height="{layout.height}" role="img" font-family="{FONT}">',
        f"<title>{escape(printable('; '.join(scene.caption)))}</title>",
        f'<rect width="{layout.width}" height="{layout.height}" rx="12" fill="{CARD}"/>',
        *ice(scene, layout),
        *tracks(scene, layout),
        *goals(scene, layout),
        *timeline(scene, layout),
        *(disc(scene, layout, agent) for agent in reversed(range(board.agents))),
        *marks(scene, layout),
        *caption(scene, layout),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def number(value: float) -> str:
    """A number with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def ice(scene: Scene, layout: Layout) -> Iterator[str]:
    """The sheet of ice, its cells and its holes."""
    board, cell = scene.board, layout.cell
    width, height = board.width * cell, board.height * cell
    yield (
        f'<rect x="{layout.left}" y="{layout.top}" width="{width}" height="{height}" rx="6" '
        f'fill="{ICE}" stroke="{RIM}" stroke-width="2"/>'
    )
    down = (f"M{layout.left + c * cell} {layout.top}v{height}" for c in range(1, board.width))
    across = (f"M{layout.left} {layout.top + r * cell}h{width}" for r in range(1, board.height))
    yield f'<path d="{"".join((*down, *across))}" stroke="{FROST}" stroke-width="2"/>'
    inset, size, wave = number(cell * 0.06), number(cell * 0.88), number(cell * 0.14)
    for r, row in enumerate(board.rows):
        for c, mark in enumerate(row):
            if mark == HOLE:
                x, y = layout.left + c * cell, layout.top + r * cell
                yield (
                    f'<g transform="translate({x} {y})"><rect x="{inset}" y="{inset}" '
                    f'width="{size}" height="{size}" rx="{number(cell * 0.24)}" fill="{WATER}" '
                    f'stroke="{RIM}" stroke-width="{number(cell * 0.04)}"/><path '
                    f'd="M{number(cell * 0.22)} {number(cell * 0.45)}q{wave} -{wave} '
                    f'{number(cell * 0.28)} 0t{number(cell * 0.28)} 0" fill="none" '
                    f'stroke="{WAVE}" stroke-width="{number(cell * 0.045)}" '
                    f'stroke-linecap="round"/></g>'
                )


def tracks(scene: Scene, layout: Layout) -> Iterator[str]:
    """Paths with a dot where they begin and a ring where their agent waits."""
    for agent in range(scene.board.agents):
        points = track(scene, layout, agent)
        if len(points) < 2:
            continue
        colour, (x, y) = fill_of(agent), points[0]
        line = " ".join(f"{number(x)},{number(y)}" for x, y in points)
        rings = "".join(
            f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(WAIT * layout.cell)}"/>'
            for x, y in waits(scene, layout, agent)
        )
        yield (
            f'<g opacity="{PATH_OPACITY}" fill="none" stroke="{colour}" stroke-linecap="round" '
            f'stroke-linejoin="round" stroke-width="{number(layout.cell * 0.075)}">'
            f'<polyline points="{line}"/>{rings}'
            f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(START * layout.cell)}" '
            f'fill="{colour}" stroke="none"/></g>'
        )


def goals(scene: Scene, layout: Layout) -> Iterator[str]:
    """A ring with a small letter at each goal."""
    for agent, goal in enumerate(scene.board.goals):
        x, y = layout.place(goal)
        edge = number(layout.cell * 0.06)
        yield (
            f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(RING * layout.cell)}" '
            f'fill="{CARD}" stroke="{fill_of(agent)}" stroke-width="{edge}"/>'
            + words(x, y, letters(agent).lower(), INK, layout.cell)
        )


def words(x: float, y: float, name: str, colour: str, cell: int) -> str:
    """A letter in the middle of a cell."""
    size = letter_size(name, cell)
    return (
        f'<text x="{number(x)}" y="{number(y + 0.35 * size)}" font-size="{number(size)}" '
        f'font-weight="600" text-anchor="middle" fill="{colour}">{escape(name)}</text>'
    )


def disc(scene: Scene, layout: Layout, agent: int) -> str:
    """A disc with a letter, and its motion."""
    times = [*range(int(scene.end) + 1)]
    stops = [scene.position(agent, time) for time in times]
    if scene.end > times[-1]:
        stops.append(scene.position(agent, scene.end))
    places = [" ".join(map(number, layout.place(at))) for at in stops]
    cell, name = layout.cell, letters(agent)
    motion = film(scene, "Transform", 'attributeName="transform" type="translate"', places)
    return (
        f'<g transform="translate({places[0]})"><circle r="{number(DISC * cell)}" '
        f'fill="{fill_of(agent)}" stroke="{edge_of(agent)}" '
        f'stroke-width="{number(cell * 0.05)}"/>'
        f"{words(0, 0, name, letter_of(agent), cell)}{motion}</g>"
    )


def film(scene: Scene, kind: str, attributes: str, values: list[str]) -> str:
    """An endless animation through values at time steps 0, 1, ... and at the end of the film."""
    if len(set(values)) == 1:
        return ""
    moments = [BEGIN_S + STEP_S * min(time, scene.end) for time in range(len(values))]
    total = moments[-1] + HOLD_S
    keys = ";".join(f"{moment / total:.4f}" for moment in [0, *moments, total])
    path = ";".join([values[0], *values, values[-1]])
    splines = ";".join([".4 0 .6 1"] * (len(values) + 1))
    return (
        f'<animate{kind} {attributes} values="{path}" keyTimes="{keys}" keySplines="{splines}" '
        f'calcMode="spline" dur="{number(total)}s" repeatCount="indefinite"/>'
    )


def timeline(scene: Scene, layout: Layout) -> Iterator[str]:
    """A line with a tick per time step, a moving knob, and a cross where the plan fails."""
    if layout.timeline is None:
        return
    y, moments = layout.timeline, [layout.moment(scene, t) for t in range(scene.steps + 1)]
    ticks = "".join(f"M{number(x)} {y - 3}v6" for x in moments)
    yield (
        f'<path d="M{number(moments[0])} {y}H{number(moments[-1])}{ticks}" stroke="{FAINT}" '
        f'stroke-width="1.5"/>'
    )
    failing = {time for mark in scene.marks for time in mark.times}
    for time in sorted({0, scene.steps} | failing):
        x, colour = moments[min(time, scene.steps)], ALARM if time in failing else INK
        yield (
            f'<text x="{number(x)}" y="{y + 19}" font-size="11" text-anchor="middle" '
            f'fill="{colour}">{time}</text>'
        )
        if time in failing:
            yield cross(x, y, 5, 4.4, "#ffffff") + cross(x, y, 5, 2, MARK)
    knob = moments[: int(scene.end) + 1]
    if scene.end > int(scene.end):
        knob.append(layout.moment(scene, scene.end))
    motion = film(scene, "", 'attributeName="cx"', [number(x) for x in knob])
    yield f'<circle cx="{number(knob[0])}" cy="{y}" r="5" fill="{INK}">{motion}</circle>'


def cross(x: float, y: float, reach: float, thick: float, colour: str) -> str:
    size = number(2 * reach)
    bars = f"M{number(x - reach)} {number(y - reach)}l{size} {size}m-{size} 0l{size} -{size}"
    return (
        f'<path d="{bars}" stroke="{colour}" stroke-width="{number(thick)}" '
        f'stroke-linecap="round"/>'
    )


def marks(scene: Scene, layout: Layout) -> Iterator[str]:
    """A red frame and cross where a check fails, with its time, or around the whole board."""
    if not scene.violations:
        return
    cell, board = layout.cell, scene.board
    frame = f'fill="none" stroke="{MARK}" stroke-width="{number(max(2, cell * 0.07))}"'
    yield '<g class="violation">'
    if not scene.marks:
        yield (
            f'<rect x="{layout.left - 4}" y="{layout.top - 4}" width="{board.width * cell + 8}" '
            f'height="{board.height * cell + 8}" rx="9" {frame}/>'
        )
    for mark in scene.marks:
        x, y = layout.place(mark.at)
        yield (
            f'<rect x="{number(x - cell / 2)}" y="{number(y - cell / 2)}" width="{cell}" '
            f'height="{cell}" rx="{number(cell * 0.18)}" {frame}/>'
        )
        yield sign(x, y - cell / 2, mark)
    yield "</g>"


def sign(x: float, y: float, mark: Mark) -> str:
    """A small red sign with a cross and the failing time steps."""
    label, width = label_of(mark)
    left = x - width / 2
    return (
        f'<rect x="{number(left)}" y="{number(y - 8)}" width="{number(width)}" '
        f'height="16" rx="8" fill="{MARK}" stroke="#ffffff"/>'
        f"{cross(left + 10, y, 3, 1.6, '#ffffff')}"
        f'<text x="{number(left + 17)}" y="{number(y + 4)}" font-size="11" font-weight="600" '
        f'fill="#ffffff">{escape(label)}</text>'
    )


def caption(scene: Scene, layout: Layout) -> Iterator[str]:
    """The words below the board."""
    colour = ALARM if scene.violations else INK
    for y, line in layout.lines:
        yield (
            f'<text x="{layout.margin}" y="{y}" font-size="{TEXT_SIZE}" fill="{colour}">'
            f"{escape(line)}</text>"
        )
