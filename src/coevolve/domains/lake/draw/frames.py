"""The frames of a film, painted with Pillow; every frame has the same size and palette."""

from math import ceil, pi, sin
from os import PathLike

from PIL import Image, ImageColor

from coevolve.domains.lake.board import HOLE
from coevolve.domains.lake.draw.brush import Brush
from coevolve.domains.lake.draw.look import (
    ALARM,
    CARD,
    DISC,
    FAINT,
    FROST,
    ICE,
    INK,
    MARK,
    PALETTE,
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
    track,
    waits,
)
from coevolve.domains.lake.draw.scene import Point, Scene, letters

FRAMES = 4
"""Frames per time step."""
FRAME_MS, BEGIN_MS, HOLD_MS = 120, 700, 1500
MAX_CELL = 44
KNOB = 5.0
COLOURS = 10
"""Colours taken from the picture, beside the fixed ones."""


def save_film(scene: Scene, path: str | PathLike[str]) -> None:
    """Write the frames as a GIF that loops."""
    frames = frames_of(scene)
    palette = palette_of(scene, frames[-1])
    flat = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    times = [FRAME_MS] * len(flat)
    times[0] = BEGIN_MS
    times[-1] = HOLD_MS
    flat[0].save(
        path, "GIF", save_all=True, append_images=flat[1:], duration=times, loop=0, optimize=True
    )


def frames_of(scene: Scene) -> list[Image.Image]:
    """The frames at their real colours; the last one carries the marks."""
    layout = layout_of(scene, MAX_CELL)
    ground = ground_of(scene, layout)
    discs = [disc_of(layout, agent) for agent in range(scene.board.agents)]
    knob = knob_of()
    frames = []
    for number in range(ceil(scene.end * FRAMES) + 1):
        time = min(number / FRAMES, scene.end)
        frame = ground.copy()
        if layout.timeline is not None:
            stamp(frame, knob, (layout.moment(scene, time), layout.timeline))
        for agent in reversed(range(len(discs))):
            stamp(frame, discs[agent], layout.place(scene.position(agent, time)))
        frames.append(frame)
    if scene.violations:
        marks = marks_of(scene, layout)
        frames[-1].paste(marks, (0, 0), marks)
    return frames


def palette_of(scene: Scene, frame: Image.Image) -> Image.Image:
    """The colours of agents, paths and all else, exactly, and a few found in a frame."""
    agents = [fill_of(agent) for agent in range(min(scene.board.agents, len(PALETTE)))]
    paths = [mix(colour, ICE, PATH_OPACITY) for colour in agents]
    fixed = [MARK, ALARM, "#ffffff", CARD, ICE, FROST, RIM, WATER, WAVE, INK, FAINT]
    colours = [part for colour in fixed + agents + paths for part in ImageColor.getrgb(colour)]
    found = frame.quantize(COLOURS, dither=Image.Dither.NONE).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette(colours + found)
    return palette


def mix(colour: str, ground: str, opacity: float) -> str:
    """A half-clear colour as it shows on a ground."""
    pairs = zip(ImageColor.getrgb(colour), ImageColor.getrgb(ground), strict=True)
    return "#" + "".join(f"{round(opacity * a + (1 - opacity) * b):02x}" for a, b in pairs)


def stamp(frame: Image.Image, picture: Image.Image, at: Point) -> None:
    """Lay a small picture over a frame, its middle at a point."""
    corner = round(at[0] - picture.width / 2), round(at[1] - picture.height / 2)
    frame.paste(picture, corner, picture)


def ground_of(scene: Scene, layout: Layout) -> Image.Image:
    """Everything that does not move."""
    brush = Brush(layout.width, layout.height, CARD)
    paint_ice(brush, scene, layout)
    for agent in range(scene.board.agents):
        paint_track(brush, scene, layout, agent)
    for agent, goal in enumerate(scene.board.goals):
        at, cell, name = layout.place(goal), layout.cell, letters(agent).lower()
        brush.disc(at, RING * cell, CARD, fill_of(agent), cell * 0.06)
        brush.words(at, name, letter_size(name, cell), INK, bold=True)
    paint_timeline(brush, scene, layout)
    for y, line in layout.lines:
        colour = ALARM if scene.violations else INK
        brush.words((layout.margin, y), line, TEXT_SIZE, colour, anchor="ls")
    return brush.reduced()


def paint_ice(brush: Brush, scene: Scene, layout: Layout) -> None:
    """The sheet of ice, its cells and its holes."""
    board, cell, left, top = scene.board, layout.cell, layout.left, layout.top
    width, height = board.width * cell, board.height * cell
    brush.box(left, top, width, height, radius=6, fill=ICE, edge=RIM, thick=2)
    for column in range(1, board.width):
        x = left + column * cell
        brush.line([(x, top + 1), (x, top + height - 1)], FROST, 2)
    for row in range(1, board.height):
        y = top + row * cell
        brush.line([(left + 1, y), (left + width - 1, y)], FROST, 2)
    inset, size = cell * 0.06, cell * 0.88
    for r, marks in enumerate(board.rows):
        for c, mark in enumerate(marks):
            if mark == HOLE:
                x, y = left + c * cell, top + r * cell
                brush.box(
                    x + inset,
                    y + inset,
                    size,
                    size,
                    radius=cell * 0.24,
                    fill=WATER,
                    edge=RIM,
                    thick=cell * 0.04,
                )
                wave = [
                    (x + cell * (0.22 + 0.56 * k / 16), y + cell * (0.45 - 0.07 * sin(pi * k / 8)))
                    for k in range(17)
                ]
                brush.line(wave, WAVE, cell * 0.045)


def paint_track(brush: Brush, scene: Scene, layout: Layout, agent: int) -> None:
    """A path with a dot where it begins and a ring where its agent waits."""
    points = track(scene, layout, agent)
    if len(points) < 2:
        return
    thick = layout.cell * 0.075
    veil = Brush(layout.width, layout.height, None)
    veil.line(points, "#ffffff", thick)
    veil.disc(points[0], START * layout.cell, "#ffffff")
    for at in waits(scene, layout, agent):
        veil.disc(at, WAIT * layout.cell, None, "#ffffff", thick)
    brush.tint(veil, fill_of(agent), PATH_OPACITY)


def paint_timeline(brush: Brush, scene: Scene, layout: Layout) -> None:
    """A line with a tick per time step, and a cross where the plan fails."""
    if layout.timeline is None:
        return
    y, moments = layout.timeline, [layout.moment(scene, t) for t in range(scene.steps + 1)]
    brush.line([(moments[0], y), (moments[-1], y)], FAINT, 1.5)
    for x in moments:
        brush.line([(x, y - 3), (x, y + 3)], FAINT, 1.5)
    failing = {time for mark in scene.marks for time in mark.times}
    for time in sorted({0, scene.steps} | failing):
        x = moments[min(time, scene.steps)]
        colour = ALARM if time in failing else INK
        brush.words((x, y + 19), str(time), 11, colour, anchor="ms")
        if time in failing:
            brush.cross((x, y), 5, 4.4, "#ffffff")
            brush.cross((x, y), 5, 2, MARK)


def disc_of(layout: Layout, agent: int) -> Image.Image:
    """An agent, alone."""
    cell, name = layout.cell, letters(agent)
    brush = Brush(cell, cell, None)
    middle = (cell / 2, cell / 2)
    brush.disc(middle, DISC * cell, fill_of(agent), edge_of(agent), cell * 0.05)
    brush.words(middle, name, letter_size(name, cell), letter_of(agent), bold=True)
    return brush.reduced()


def knob_of() -> Image.Image:
    """The knob of the time line, alone."""
    brush = Brush(2 * KNOB + 2, 2 * KNOB + 2, None)
    brush.disc((KNOB + 1, KNOB + 1), KNOB, INK)
    return brush.reduced()


def marks_of(scene: Scene, layout: Layout) -> Image.Image:
    """A red frame and cross where a check fails, with its time, or around the whole board."""
    cell, board = layout.cell, scene.board
    brush, thick = Brush(layout.width, layout.height, None), max(2.0, cell * 0.07)
    if not scene.marks:
        size = board.width * cell + 8, board.height * cell + 8
        brush.box(layout.left - 4, layout.top - 4, *size, radius=9, edge=MARK, thick=thick)
    for mark in scene.marks:
        x, y = layout.place(mark.at)
        corner = x - cell / 2, y - cell / 2
        brush.box(*corner, cell, cell, radius=cell * 0.18, edge=MARK, thick=thick)
        label, width = label_of(mark)
        left = x - width / 2
        brush.box(left, corner[1] - 8, width, 16, radius=8, fill=MARK, edge="#ffffff", thick=1)
        brush.cross((left + 10, corner[1]), 3, 1.6, "#ffffff")
        brush.words((left + 17, corner[1]), label, 11, "#ffffff", anchor="lm", bold=True)
    return brush.reduced()
