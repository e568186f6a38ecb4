"""How pictures look: colours, sizes in pixels, and curves; the same for SVG and GIF.

A layout has room for all that its scene shows, agents beside the board and long words too.
"""

import textwrap
from itertools import groupby
from math import dist
from typing import NamedTuple

from coevolve.domains.lake.draw.scene import Point, Scene, on_board

CARD, ICE, FROST, RIM, WATER, WAVE = (
    "#fbfdfe",
    "#dceff7",
    "#f7fcfe",
    "#a8d3e5",
    "#143d56",
    "#4a88a6",
)
INK, FAINT, MARK, ALARM = "#24404f", "#9dbccb", "#d4001a", "#a80018"
PALETTE = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#d55e00",
    "#f0e442",
    "#56b4e9",
    "#000000",
)
"""Okabe and Ito's colours, which colour-blind readers can tell apart."""
DARK = {"#0072b2", "#009e73", "#d55e00", "#000000"}
"""The colours on which letters are white."""

PATH_OPACITY = 0.55
DISC, RING, WAIT, START = 0.31, 0.4, 0.15, 0.09
"""Radii of an agent, a goal, a place of waiting and the begin of a path, in cells."""
TEXT_SIZE, LINE_HEIGHT = 13, 18
MIN_INSIDE = 300
"""The least width between the margins, for the words."""


class Layout(NamedTuple):
    """The sizes of a picture, in pixels."""

    cell: int
    left: int
    top: int
    width: int
    height: int
    margin: int
    timeline: int | None
    """The height of the time line; none when nothing moves."""
    lines: tuple[tuple[int, str], ...]
    """The words below the board, each with its baseline."""

    def place(self, at: Point) -> Point:
        """The pixel at the middle of a cell."""
        row, column = at
        return self.left + (column + 0.5) * self.cell, self.top + (row + 0.5) * self.cell

    def moment(self, scene: Scene, time: float) -> float:
        """The pixel column of a time on the time line."""
        return self.margin + (self.width - 2 * self.margin) * time / scene.steps


def layout_of(scene: Scene, max_cell: int) -> Layout:
    """Room for the board, the time line and the words; large boards get smaller cells."""
    board = scene.board
    cell = max(12, min(max_cell, 704 // max(board.height, board.width)))
    margin = cell + 22 if scene.leaves_board else 22
    inside = max(board.width * cell, MIN_INSIDE)
    y = margin + board.height * cell + (cell if scene.leaves_board else 0)
    timeline = y + 24 if scene.steps else None
    y += 64 if scene.steps else 26
    lines = []
    for paragraph in scene.caption:
        for line in textwrap.wrap(printable(paragraph), int(inside / (TEXT_SIZE * 0.53))):
            lines.append((y, line))
            y += LINE_HEIGHT
    width = inside + 2 * margin
    left = (width - board.width * cell) // 2
    return Layout(cell, left, margin, width, y, margin, timeline, tuple(lines))


def printable(words: str) -> str:
    """Words without control characters, which XML cannot hold."""
    return "".join(mark if mark.isprintable() else " " for mark in words)


def fill_of(agent: int) -> str:
    return PALETTE[agent % len(PALETTE)]


def edge_of(agent: int) -> str:
    """The colour of an agent's edge: white for the first eight, then another for each eight."""
    turn = agent // len(PALETTE) % len(PALETTE)
    return ("#ffffff", INK)[turn] if turn < 2 else fill_of(agent + turn)


def letter_of(agent: int) -> str:
    """The colour of the letter on an agent."""
    return "#ffffff" if fill_of(agent) in DARK else "#10222c"


def letter_size(name: str, cell: int) -> float:
    return cell * (0.34 if len(name) == 1 else 0.28)


def place_in_lane(scene: Scene, layout: Layout, agent: int, at: Point) -> Point:
    """The pixel of a cell on an agent's path, a little beside its middle so that paths do not
    cover."""
    lanes = min(scene.board.agents, len(PALETTE))
    gap = min(0.1, 0.4 / max(1, lanes - 1)) * layout.cell
    shift = (agent % lanes - (lanes - 1) / 2) * gap
    x, y = layout.place(at)
    return x + shift, y + shift


def track(scene: Scene, layout: Layout, agent: int) -> list[Point]:
    """An agent's path in pixels, in its own lane and with round corners."""
    points = [place_in_lane(scene, layout, agent, at) for at, _ in groupby(scene.paths[agent])]
    return rounded(points, 0.32 * layout.cell)


def rounded(points: list[Point], radius: float) -> list[Point]:
    """A polyline whose corners are bows; straight runs keep only their ends."""
    curve = points[:1]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        way_in = toward(corner, before, radius)
        way_out = toward(corner, after, radius)
        middle = ((way_in[0] + way_out[0]) / 2, (way_in[1] + way_out[1]) / 2)
        if dist(middle, corner) < 0.01:
            continue
        if dist(way_in, way_out) < 0.01:
            curve.append(corner)
            continue
        for part in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
            rest = 1 - part
            weights = (rest * rest, 2 * rest * part, part * part)
            bow = tuple(zip(way_in, corner, way_out, strict=True))
            x, y = (sum(w * p for w, p in zip(weights, axis, strict=True)) for axis in bow)
            curve.append((x, y))
    return curve + points[-1:] if len(points) > 1 else curve


def toward(origin: Point, target: Point, length: float) -> Point:
    """The point at some length from the origin, at most half way to the target."""
    part = min(0.5, length / dist(origin, target))
    return (
        origin[0] + part * (target[0] - origin[0]),
        origin[1] + part * (target[1] - origin[1]),
    )


def waits(scene: Scene, layout: Layout, agent: int) -> list[Point]:
    """The pixels at which an agent waits on the board before it has come to rest."""
    stays = [(cell, len(list(times))) for cell, times in groupby(scene.paths[agent])]
    cells = {cell for cell, steps in stays[:-1] if steps > 1}
    shown = [cell for cell in sorted(cells) if on_board(scene.board, cell)]
    return [place_in_lane(scene, layout, agent, cell) for cell in shown]
