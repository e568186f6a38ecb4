"""Painting with Pillow in the pixels of the finished picture.

Shapes are painted three times as large and reduced at the end, which makes their edges smooth.
"""

from PIL import Image, ImageDraw, ImageFont

from coevolve.domains.lake.draw.scene import Point

SCALE = 3
"""Painted pixels per shown pixel, along each side."""


class Brush:
    """A sheet, coloured or clear, and a pen on it."""

    def __init__(self, width: float, height: float, ground: str | None) -> None:
        size = round(SCALE * width), round(SCALE * height)
        self.image = Image.new("RGB", size, ground) if ground else Image.new("RGBA", size)
        self.pen = ImageDraw.Draw(self.image)

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        radius: float = 0.0,
        fill: str | None = None,
        edge: str | None = None,
        thick: float = 0.0,
    ) -> None:
        """A rounded rectangle from its top left corner."""
        half = thick / 2
        corners = (x - half, y - half, x + width + half, y + height + half)
        self.pen.rounded_rectangle(
            [SCALE * corner for corner in corners],
            SCALE * (radius + half),
            fill,
            edge,
            round(SCALE * thick),
        )

    def disc(
        self,
        at: Point,
        radius: float,
        fill: str | None,
        edge: str | None = None,
        thick: float = 0.0,
    ) -> None:
        """A circle whose edge lies half inside and half outside the radius."""
        reach = SCALE * (radius + thick / 2)
        x, y = SCALE * at[0], SCALE * at[1]
        bounds = [x - reach, y - reach, x + reach, y + reach]
        self.pen.ellipse(bounds, fill, edge, round(SCALE * thick))

    def line(self, points: list[Point], fill: str, thick: float) -> None:
        """A line with round joints and ends."""
        scaled = [(SCALE * x, SCALE * y) for x, y in points]
        self.pen.line(scaled, fill, round(SCALE * thick), joint="curve")
        for end in (points[0], points[-1]):
            self.disc(end, thick / 2, fill)

    def words(
        self,
        at: Point,
        words: str,
        size: float,
        fill: str,
        *,
        anchor: str = "mm",
        bold: bool = False,
    ) -> None:
        font = ImageFont.load_default(SCALE * size)
        self.pen.text(
            (SCALE * at[0], SCALE * at[1]),
            words,
            fill,
            font,
            anchor=anchor,
            stroke_width=SCALE * size / 40 if bold else 0,
        )

    def cross(self, at: Point, reach: float, thick: float, fill: str) -> None:
        x, y = at
        for way in (reach, -reach):
            self.line([(x - reach, y - way), (x + reach, y + way)], fill, thick)

    def tint(self, shape: "Brush", colour: str, opacity: float) -> None:
        """Lay another sheet's shape over this one, in one half-clear colour."""
        mask = shape.image.getchannel("A").point([round(opacity * level) for level in range(256)])
        self.image.paste(colour, (0, 0), mask)

    def reduced(self) -> Image.Image:
        """The finished picture."""
        return self.image.reduce(SCALE)
