"""What is painted of a scene, the same for SVG and GIF: a `Sheet` of either kind takes the shapes,
in the pixels of the finished picture.

What moves, agents and the knob of the time line, is put on it by whoever makes the film.
"""

from math import pi, sin
from typing import TYPE_CHECKING, TypeAlias

from coevolve.domains.lake.board import HOLE
from coevolve.domains.lake.draw import look
from coevolve.domains.lake.draw.look import ALARM, INK, MARK, Layout, fill_of, letter_size
from coevolve.domains.lake.draw.scene import Point, Scene, letters

if TYPE_CHECKING:
    from coevolve.domains.lake.draw.frames import Brush
    from coevolve.domains.lake.draw.svg import Page

Sheet: TypeAlias = "Page | Brush"
WHITE = "#ffffff"


def paint_ground(sheet: Sheet, scene: Scene, layout: Layout) -> None:
    """Everything that does not move, but for the marks."""
    paint_ice(sheet, scene, layout)
    for agent in range(scene.board.agents):
        line = look.track(scene, layout, agent)
        if len(line) > 1:
            sheet.track(line, look.waits(scene, layout, agent), fill_of(agent), layout.cell)
    for agent, goal in enumerate(scene.board.goals):
        at, cell, name = layout.place(goal), layout.cell, letters(agent).lower()
        sheet.disc(at, look.RING * cell, look.CARD, fill_of(agent), cell * 0.06)
        sheet.words(at, name, letter_size(name, cell), INK, bold=True)
    paint_timeline(sheet, scene, layout)
    colour = ALARM if scene.violations else INK
    for y, line_of_words in layout.lines:
        sheet.words((layout.margin, y), line_of_words, look.TEXT_SIZE, colour, anchor="ls")


def paint_ice(sheet: Sheet, scene: Scene, layout: Layout) -> None:
    """The sheet of ice, its cells and its holes."""
    board, cell, left, top = scene.board, layout.cell, layout.left, layout.top
    width, height = board.width * cell, board.height * cell
    sheet.box(left, top, width, height, radius=6, fill=look.ICE, edge=look.RIM, thick=2)
    columns = [left + column * cell for column in range(1, board.width)]
    rows = [top + row * cell for row in range(1, board.height)]
    down: list[list[Point]] = [[(x, top + 1), (x, top + height - 1)] for x in columns]
    across: list[list[Point]] = [[(left + 1, y), (left + width - 1, y)] for y in rows]
    sheet.strokes([*down, *across], look.FROST, 2)
    inset, size, thick = cell * 0.06, cell * 0.88, cell * 0.04
    for r, marks in enumerate(board.rows):
        for c, mark in enumerate(marks):
            if mark == HOLE:
                x, y = left + c * cell, top + r * cell
                sheet.box(
                    x + inset, y + inset, size, size, radius=cell * 0.24, fill=look.WATER,
                    edge=look.RIM, thick=thick,
                )  # fmt: skip
                wave = [
                    (x + cell * (0.22 + 0.56 * k / 16), y + cell * (0.45 - 0.07 * sin(pi * k / 8)))
                    for k in range(17)
                ]
                sheet.strokes([wave], look.WAVE, cell * 0.045)


def paint_timeline(sheet: Sheet, scene: Scene, layout: Layout) -> None:
    """A line with a tick per time step, and a cross where the plan fails."""
    if layout.timeline is None:
        return
    y, moments = layout.timeline, [layout.moment(scene, t) for t in range(scene.steps + 1)]
    ticks: list[list[Point]] = [[(x, y - 3), (x, y + 3)] for x in moments]
    sheet.strokes([[(moments[0], y), (moments[-1], y)], *ticks], look.FAINT, 1.5)
    failing = {time for mark in scene.marks for time in mark.times}
    for time in sorted({0, scene.steps} | failing):
        x = moments[min(time, scene.steps)]
        colour = ALARM if time in failing else INK
        sheet.words((x, y + 19), str(time), 11, colour, anchor="ms")
        if time in failing:
            paint_cross(sheet, (x, y), 5, 4.4, WHITE)
            paint_cross(sheet, (x, y), 5, 2, MARK)


def paint_cross(sheet: Sheet, at: Point, reach: float, thick: float, colour: str) -> None:
    x, y = at
    bars: list[list[Point]] = [
        [(x - reach, y - way), (x + reach, y + way)] for way in (reach, -reach)
    ]
    sheet.strokes(bars, colour, thick)


def paint_agent(sheet: Sheet, at: Point, agent: int, cell: int) -> None:
    """A disc with a letter."""
    name = letters(agent)
    sheet.disc(at, look.DISC * cell, fill_of(agent), look.edge_of(agent), cell * 0.05)
    sheet.words(at, name, letter_size(name, cell), look.letter_of(agent), bold=True)


def paint_marks(sheet: Sheet, scene: Scene, layout: Layout) -> None:
    """A red frame and cross where a check fails, with its time, or around the whole board."""
    cell, board = layout.cell, scene.board
    thick = max(2.0, cell * 0.07)
    if not scene.marks:
        size = board.width * cell + 8, board.height * cell + 8
        sheet.box(layout.left - 4, layout.top - 4, *size, radius=9, edge=MARK, thick=thick)
    for mark in scene.marks:
        x, y = layout.place(mark.at)
        corner = x - cell / 2, y - cell / 2
        sheet.box(*corner, cell, cell, radius=cell * 0.18, edge=MARK, thick=thick)
        label = "t=" + ",".join(map(str, mark.times))
        width = 23 + 6.8 * len(label)
        left = x - width / 2
        sheet.box(left, corner[1] - 8, width, 16, radius=8, fill=MARK, edge=WHITE, thick=1)
        paint_cross(sheet, (left + 10, corner[1]), 3, 1.6, WHITE)
        sheet.words((left + 17, corner[1]), label, 11, WHITE, anchor="lm", bold=True)
