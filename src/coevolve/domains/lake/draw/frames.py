"""The frames of a film, painted with Pillow; every frame has the same size and palette."""

from collections.abc import Iterable
from math import ceil
from os import PathLike

from PIL import Image, ImageColor, ImageDraw, ImageFont

from coevolve.domains.lake.draw import look
from coevolve.domains.lake.draw.look import ALARM, CARD, ICE, INK, MARK, PALETTE, fill_of
from coevolve.domains.lake.draw.paint import WHITE, paint_agent, paint_ground, paint_marks
from coevolve.domains.lake.draw.scene import Point, Scene

FRAMES = 4
"""Frames per time step."""
FRAME_MS, BEGIN_MS, HOLD_MS = 120, 700, 1500
MAX_CELL = 44
KNOB = 5.0
COLOURS = 10
"""Colours taken from the picture, beside the fixed ones."""
SCALE = 3
"""Painted pixels per shown pixel, along each side: reduced at the end, edges are smooth."""


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
    layout = look.layout_of(scene, MAX_CELL)
    cell, size = layout.cell, (layout.width, layout.height)
    sheet = Brush(*size, CARD)
    paint_ground(sheet, scene, layout)
    ground, discs = sheet.reduced(), []
    for agent in range(scene.board.agents):
        disc = Brush(cell, cell, None)
        paint_agent(disc, (cell / 2, cell / 2), agent, cell)
        discs.append(disc.reduced())
    sheet = Brush(2 * KNOB + 2, 2 * KNOB + 2, None)
    sheet.disc((KNOB + 1, KNOB + 1), KNOB, INK)
    knob = sheet.reduced()
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
        marked = Brush(*size, None)
        paint_marks(marked, scene, layout)
        marks = marked.reduced()
        frames[-1].paste(marks, (0, 0), marks)
    return frames


def palette_of(scene: Scene, frame: Image.Image) -> Image.Image:
    """The colours of agents, paths and all else, exactly, and a few found in a frame."""
    agents = [fill_of(agent) for agent in range(min(scene.board.agents, len(PALETTE)))]
    paths = [mix(colour, ICE, look.PATH_OPACITY) for colour in agents]
    ice = [WHITE, CARD, ICE, look.FROST, look.RIM, look.WATER, look.WAVE]
    fixed = [MARK, ALARM, *ice, INK, look.FAINT]
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


class Brush:
    """A `Sheet` of Pillow's, coloured or clear."""

    def __init__(self, width: float, height: float, ground: str | None) -> None:
        self.size = width, height
        size = round(SCALE * width), round(SCALE * height)
        self.image = Image.new("RGB", size, ground) if ground else Image.new("RGBA", size)
        self.pen = ImageDraw.Draw(self.image)

    def box(
        self, x: float, y: float, width: float, height: float, *, radius: float = 0.0,
        fill: str | None = None, edge: str | None = None, thick: float = 0.0,
    ) -> None:  # fmt: skip
        half = thick / 2
        corners = (x - half, y - half, x + width + half, y + height + half)
        place = [SCALE * corner for corner in corners]
        around = SCALE * (radius + half)
        self.pen.rounded_rectangle(place, around, fill, edge, round(SCALE * thick))

    def disc(
        self, at: Point, radius: float, fill: str | None, edge: str | None = None,
        thick: float = 0.0,
    ) -> None:  # fmt: skip
        reach = SCALE * (radius + thick / 2)
        x, y = SCALE * at[0], SCALE * at[1]
        bounds = [x - reach, y - reach, x + reach, y + reach]
        self.pen.ellipse(bounds, fill, edge, round(SCALE * thick))

    def strokes(self, lines: Iterable[list[Point]], colour: str, thick: float) -> None:
        for line in lines:
            scaled = [(SCALE * x, SCALE * y) for x, y in line]
            self.pen.line(scaled, colour, round(SCALE * thick), joint="curve")
            for end in (line[0], line[-1]):
                self.disc(end, thick / 2, colour)

    def words(
        self, at: Point, words: str, size: float, colour: str, *, anchor: str = "mm",
        bold: bool = False,
    ) -> None:  # fmt: skip
        font = ImageFont.load_default(SCALE * size)
        place = SCALE * at[0], SCALE * at[1]
        edge = SCALE * size / 40 if bold else 0
        self.pen.text(place, words, colour, font, anchor=anchor, stroke_width=edge)

    def track(self, line: list[Point], waits: list[Point], colour: str, cell: int) -> None:
        thick = cell * 0.075
        veil = Brush(*self.size, None)
        veil.strokes([line], WHITE, thick)
        veil.disc(line[0], look.START * cell, WHITE)
        for at in waits:
            veil.disc(at, look.WAIT * cell, None, WHITE, thick)
        levels = [round(look.PATH_OPACITY * level) for level in range(256)]
        self.image.paste(colour, (0, 0), veil.image.getchannel("A").point(levels))

    def reduced(self) -> Image.Image:
        """The finished picture."""
        return self.image.reduce(SCALE)
