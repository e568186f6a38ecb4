"""What a picture shows: where agents are at a time, what failed where, and the words below.

SVG and GIF both draw a `Scene`, so that they cannot disagree. All its positions lie on the board
or at most one cell beside it, whatever the plan says.
"""

from math import ceil
from typing import NamedTuple

from coevolve.domains.lake.board import Board, Cell, Path, Plan
from coevolve.domains.lake.checks import Violation, check_plan

Point = tuple[float, float]
"""Row and column, as a cell's, between cells too."""


class Mark(NamedTuple):
    """A place to be marked as failing, and the time steps at which it does."""

    at: Point
    times: tuple[int, ...]


class Scene(NamedTuple):
    """A board with one path per agent, ready to be drawn."""

    board: Board
    paths: Plan
    """At least one position each; agents without a usable path stay at their start."""
    steps: int
    """The last time step of the plan; 0 without one."""
    end: float
    """When the film stops: the first failure in time, or the last step."""
    violations: tuple[Violation, ...]
    marks: tuple[Mark, ...]
    caption: tuple[str, ...]
    cost: int | None = None
    """The sum of costs of a plan that is valid."""

    def position(self, agent: int, time: float) -> Point:
        """Where an agent is at a time, gliding gently from each cell to the next."""
        path = self.paths[agent]
        whole = int(time)
        part = time - whole
        part = part * part * (3 - 2 * part)
        row, column = cell_at(path, whole)
        next_row, next_column = cell_at(path, whole + 1)
        return row + part * (next_row - row), column + part * (next_column - column)

    @property
    def times(self) -> list[float]:
        """Time steps 0, 1, ... and the end of the film."""
        return [*map(float, range(ceil(self.end))), self.end]

    @property
    def leaves_board(self) -> bool:
        return any(not on_board(self.board, cell) for path in self.paths for cell in path)


def on_board(board: Board, cell: Cell) -> bool:
    return 0 <= cell[0] < board.height and 0 <= cell[1] < board.width


def letters(agent: int) -> str:
    """The name of an agent in pictures: A to Z, then AA, AB and so on."""
    name = ""
    agent += 1
    while agent:
        agent, digit = divmod(agent - 1, 26)
        name = chr(ord("A") + digit) + name
    return name


def cell_at(path: Path, time: int) -> Cell:
    """A path's cell at a time; it stays at its last one."""
    return path[min(time, len(path) - 1)]


def scene_of(board: Board, plan: Plan | None) -> Scene:
    """The scene of a board, with a plan or without."""
    if plan is None:
        words = f"{board.height} x {board.width} board, {count(board.agents, 'agent')}, "
        words += count(board.holes, "hole")
        return Scene(board, paths_of(board, ()), 0, 0.0, (), (), (words,))
    violations, cost = check_plan(board, plan)
    paths = paths_of(board, plan)
    steps = max(len(path) for path in paths) - 1
    if violations:
        caption = tuple(explain(board, plan, violation) for violation in violations)
    else:
        words = f"{count(board.agents, 'agent')}, {count(steps, 'step')}, sum of costs {cost}"
        caption = (words,)
    stops = [stop_of(paths, violation) for violation in violations]
    return Scene(
        board,
        paths,
        steps,
        min([*stops, float(steps)]),
        tuple(violations),
        marks_of(board, paths, violations),
        caption,
        cost,
    )


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def paths_of(board: Board, plan: Plan) -> Plan:
    """One path per agent, never empty, cut to the board and a rim of one cell around it."""
    if len(plan) != board.agents:
        return tuple((start,) for start in board.starts)
    return tuple(
        tuple((cut(row, board.height), cut(column, board.width)) for row, column in path)
        or (start,)
        for path, start in zip(plan, board.starts, strict=True)
    )


def cut(coordinate: int, side: int) -> int:
    return min(max(int(coordinate), -1), side)


def explain(board: Board, plan: Plan, violation: Violation) -> str:
    """A violation in words, with the letters that the picture uses."""
    if violation.agent is None:
        paths = count(len(plan), "path")
        return f"{violation.describe()}: {paths}, {count(board.agents, 'agent')}"
    names = letters(violation.agent)
    if violation.other is not None:
        names += f" and {letters(violation.other)}"
    return f"{names}: {violation.describe()}"


def stop_of(paths: Plan, violation: Violation) -> float:
    """When to stop the film for a violation; a little before a collision, to see who collides."""
    if violation.agent is None or violation.time is None or violation.check == "goal":
        return float("inf")
    if violation.other is None:
        return float(violation.time)
    shared = cell_at(paths[violation.agent], violation.time) == cell_at(
        paths[violation.other], violation.time
    )
    return max(0.0, violation.time - (0.35 if shared else 0.6))


def marks_of(board: Board, paths: Plan, violations: list[Violation]) -> tuple[Mark, ...]:
    """Where the checks fail: a goal missed, a cell, or the border that two agents swap over."""
    times: dict[Point, tuple[int, ...]] = {}
    for violation in violations:
        agent, time, other = violation.agent, violation.time, violation.other
        if agent is None or time is None:
            continue
        row, column = (
            board.goals[agent] if violation.check == "goal" else cell_at(paths[agent], time)
        )
        next_row, next_column = (row, column) if other is None else cell_at(paths[other], time)
        at = ((row + next_row) / 2, (column + next_column) / 2)
        if time not in times.get(at, ()):
            times[at] = (*times.get(at, ()), time)
    return tuple(Mark(at, tuple(sorted(seen))) for at, seen in times.items())
