"""Pictures of boards and plans: for a terminal, a web page and a README.

Any plan can be drawn, however broken; what is wrong with it is shown, never raised.
"""

from coevolve.domains.lake.draw.gif import draw_gif
from coevolve.domains.lake.draw.svg import draw_svg
from coevolve.domains.lake.draw.text import draw_text

__all__ = ["draw_gif", "draw_svg", "draw_text"]
