"""Scripted policies for the lake, from the oracle to a random walk."""

import random
from collections.abc import Callable, Mapping

from coevolve.domains.lake import answer
from coevolve.domains.lake.board import HOLE, Board, Cell, Path, Plan

STEPS: tuple[Cell, ...] = tuple(answer.STEPS.values())
Busy = Callable[[Cell, Cell, int], bool]
"""Whether a move from a cell to a cell that begins at a time runs into somebody."""


def neighbours(board: Board, cell: Cell) -> list[Cell]:
    """Cells an agent can be in one step later, its own included."""
    row, column = cell
    return [
        (row + down, column + right)
        for down, right in STEPS
        if 0 <= row + down < board.height
        and 0 <= column + right < board.width
        and board.rows[row + down][column + right] != HOLE
    ]


def nobody(_cell: Cell, _target: Cell, _time: int) -> bool:
    return False


def shortest(board: Board, agent: int, busy: Busy, rest_from: int, limit: int) -> Path | None:
    """A shortest path in space and time that `busy` allows and that rests from `rest_from` on."""
    start, goal = board.starts[agent], board.goals[agent]
    layer: dict[Cell, Path] = {start: (start,)}
    for time in range(limit):
        if goal in layer and time >= rest_from:
            return layer[goal]
        following: dict[Cell, Path] = {}
        for cell, path in layer.items():
            for target in neighbours(board, cell):
                if target not in following and not busy(cell, target, time):
                    following[target] = (*path, target)
        layer = following
    return None


def greedy(board: Board, _rng: random.Random) -> Plan:
    """Every agent takes a shortest path as if it were alone."""
    limit = board.height * board.width + 1
    return tuple(
        shortest(board, agent, nobody, 0, limit) or (board.starts[agent],)
        for agent in range(board.agents)
    )


def prioritised(board: Board, _rng: random.Random) -> Plan:
    """Agents plan one after another, each out of the way of those before it."""
    plan: list[Path] = []
    for agent in range(board.agents):
        longest = max((len(path) for path in plan), default=0)
        goal = board.goals[agent]

        def at(path: Path, time: int) -> Cell:
            return path[min(time, len(path) - 1)]

        def busy(cell: Cell, target: Cell, time: int) -> bool:
            return any(
                at(path, time + 1) == target
                or (at(path, time + 1) == cell and at(path, time) == target)
                for path in plan
            )

        visits = [t for path in plan for t, cell in enumerate(path) if cell == goal]
        limit = longest + board.height * board.width
        path = shortest(board, agent, busy, max(visits, default=-1) + 1, limit)
        plan.append(path or (board.starts[agent],))
    return tuple(plan)


def waiter(board: Board, rng: random.Random) -> Plan:
    """Agents go one at a time; each waits at its start until the one before has arrived."""
    plan: list[Path] = []
    delay = 0
    for path in greedy(board, rng):
        plan.append((path[0],) * delay + path)
        delay += len(path) - 1
    return tuple(plan)


def random_walk(board: Board, rng: random.Random) -> Plan:
    """Every agent stumbles over the ice until it happens to reach its goal."""
    plan = []
    for agent in range(board.agents):
        path = [board.starts[agent]]
        while path[-1] != board.goals[agent] and len(path) <= 4 * (board.height + board.width):
            path.append(rng.choice(neighbours(board, path[-1])))
        plan.append(tuple(path))
    return tuple(plan)


PLANNERS: Mapping[str, Callable[[Board, random.Random], Plan]] = {
    "random": random_walk,
    "greedy": greedy,
    "waiter": waiter,
    "prioritised": prioritised,
}
