"""Boards and plans for a terminal, in plain ASCII; one character per cell up to 26 agents."""

from itertools import pairwise

from coevolve.core.errors import UserError
from coevolve.domains.lake.board import HOLE, Board, Cell, Path, Plan
from coevolve.domains.lake.draw.scene import Scene, cell_at, letters, on_board, scene_of

MOVES = {(0, 0): "W", (-1, 0): "U", (1, 0): "D", (0, -1): "L", (0, 1): "R"}
STRANGE = "?"
"""A move of more than one cell."""
SEVERAL = "*"


def draw_text(board: Board, plan: Plan | None = None, time: int | None = None) -> str:
    """A board at a time step of a plan (or at the start), with the plan's moves when no time is
    given."""
    if time is not None and time < 0:
        raise UserError(f"the time step is {time}; use 0 or more")
    scene = scene_of(board, plan)
    places = [cell_at(path, time or 0) for path in scene.paths]
    lines = [] if time is None else [f"time step {time}"]
    lines += [*grid(board, places), "", legend(board), *notes(board, places)]
    if plan is not None and time is None:
        lines += ["", *summary(scene, plan)]
    return "\n".join(lines) + "\n"


def grid(board: Board, places: list[Cell]) -> list[str]:
    """The rows of the board; agents cover goals."""
    shown = {goal: letters(agent).lower() for agent, goal in enumerate(board.goals)}
    for agent, cell in enumerate(places):
        shown[cell] = SEVERAL if places.count(cell) > 1 else letters(agent)
    size = len(letters(board.agents - 1))
    return [
        " ".join(
            shown.get((r, c), "#" if mark == HOLE else ".").ljust(size)
            for c, mark in enumerate(row)
        ).rstrip()
        for r, row in enumerate(board.rows)
    ]


def legend(board: Board) -> str:
    first, last = letters(0), letters(board.agents - 1)
    if board.agents == 1:
        return f". free  # hole  {first} agent 0  {first.lower()} its goal"
    return (
        f". free  # hole  {first}-{last} agents 0-{board.agents - 1}  "
        f"{first.lower()}-{last.lower()} their goals"
    )


def notes(board: Board, places: list[Cell]) -> list[str]:
    """What the grid cannot show: cells of several agents, covered goals, agents off the board."""
    crowds: dict[Cell, list[str]] = {}
    for agent, cell in enumerate(places):
        crowds.setdefault(cell, []).append(letters(agent))
    lines = []
    for cell, names in crowds.items():
        row, column = cell
        if not on_board(board, cell):
            lines.append(f"off the board: {' '.join(names)}")
        elif len(names) > 1:
            lines.append(f"{SEVERAL} at row {row}, column {column}: {' '.join(names)}")
    for agent, goal in enumerate(board.goals):
        covering = crowds.get(goal, [])
        if covering and letters(agent) not in covering:
            lines.append(f"{letters(agent).lower()} lies under {' '.join(covering)}")
    return lines


def summary(scene: Scene, plan: Plan) -> list[str]:
    """One line per path, then the sum of costs or what fails."""
    rows = [
        (letters(agent), moves_of(path), cost_of(scene.board, agent, path))
        for agent, path in enumerate(plan)
    ]
    name_size = max((len(name) for name, _, _ in rows), default=0)
    move_size = max((len(moves) for _, moves, _ in rows), default=0)
    lines = [f"{name:{name_size}}  {moves:{move_size}}  {price}" for name, moves, price in rows]
    if scene.violations:
        return lines + [f"fails: {words}" for words in scene.caption]
    return [*lines, f"sum of costs {scene.cost}"]


def moves_of(path: Path) -> str:
    """A path as letters: up, down, left, right, wait."""
    steps = pairwise(path)
    moves = "".join(MOVES.get((r - row, c - column), STRANGE) for (row, column), (r, c) in steps)
    return moves or "-"


def cost_of(board: Board, agent: int, path: Path) -> str:
    """When an agent comes to rest at its goal, in words."""
    if agent >= board.agents:
        return "no such agent"
    if not path:
        return "no path"
    away = [time for time, cell in enumerate(path) if tuple(cell) != board.goals[agent]]
    cost = away[-1] + 1 if away else 0
    return f"cost {cost}" if cost < len(path) else f"cost {cost}, goal missed"
