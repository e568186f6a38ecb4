"""Pictures of boards and plans: for a terminal, a web page and a README.

Any plan can be drawn, however broken; what is wrong with it is shown, never raised. Pillow is an
optional extra, imported only when a GIF is asked for.
"""

from os import PathLike

from coevolve.core.errors import UserError
from coevolve.domains.lake.board import Board, Plan
from coevolve.domains.lake.draw.scene import scene_of
from coevolve.domains.lake.draw.svg import draw_svg
from coevolve.domains.lake.draw.text import draw_text

__all__ = ["draw_gif", "draw_svg", "draw_text"]


def draw_gif(board: Board, plan: Plan, path: str | PathLike[str]) -> None:
    """Write a film of a plan that stops at the first failure and marks it."""
    try:
        from coevolve.domains.lake.draw.frames import save_film
    except ModuleNotFoundError as error:
        if error.name != "PIL":
            raise
        raise UserError("drawing GIFs needs Pillow: pip install coevolve[draw]") from None
    save_film(scene_of(board, plan), path)
