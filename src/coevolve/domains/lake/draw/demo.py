"""A small plan worth showing, written by hand: `write_demo(folder)` draws it in each format.

The plan passes every check; four agents meet at a gap in the ice and two wait for others.
"""

from pathlib import Path

from coevolve.domains.lake.board import Board, Plan
from coevolve.domains.lake.draw import draw_gif, draw_svg, draw_text

BOARD = Board(
    rows=(
        "......",
        ".O..O.",
        "......",
        "OO..OO",
        "......",
        ".O....",
    ),
    starts=((0, 0), (0, 5), (5, 0), (4, 5)),
    goals=((5, 5), (4, 0), (2, 0), (0, 3)),
)


def plan_of(moves: tuple[str, ...]) -> Plan:
    """Paths from the starts by letters: up, down, left, right, wait."""
    ways = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1), "W": (0, 0)}
    paths = []
    for start, letters in zip(BOARD.starts, moves, strict=True):
        path = [start]
        for letter in letters:
            row, column = ways[letter]
            path.append((path[-1][0] + row, path[-1][1] + column))
        paths.append(tuple(path))
    return tuple(paths)


PLAN = plan_of(("RRDDDDRRRD", "DDLWWLDDLLL", "URWWWWRUULL", "LLUUUU"))


def write_demo(folder: Path) -> None:
    """Write lake.txt, lake.svg and lake.gif."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lake.txt").write_text(draw_text(BOARD, PLAN))
    (folder / "lake.svg").write_text(draw_svg(BOARD, PLAN))
    draw_gif(BOARD, PLAN, folder / "lake.gif")
