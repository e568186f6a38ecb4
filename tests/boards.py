"""Boards at random, for tests of the lake."""

import random

from coevolve.domains.lake.board import Board


def random_board(
    rng: random.Random, size: int, holes: float, agents: int, width: int | None = None
) -> Board:
    """A board, square unless told, with random holes, starts and goals; each goal can be reached
    from its start, but the board as a whole need not be solvable."""
    width = width or size
    while True:
        cells = [(r, c) for r in range(size) for c in range(width)]
        water = set(rng.sample(cells, round(holes * size * width)))
        free = [cell for cell in cells if cell not in water]
        if len(free) < agents:
            continue
        home = components(set(free))
        starts, goals = rng.sample(free, agents), rng.sample(free, agents)
        if all(home[s] == home[g] for s, g in zip(starts, goals, strict=True)):
            rows = [
                "".join("O" if (r, c) in water else "." for c in range(width)) for r in range(size)
            ]
            return Board(rows=tuple(rows), starts=tuple(starts), goals=tuple(goals))


def components(free: set[tuple[int, int]]) -> dict[tuple[int, int], tuple[int, int]]:
    """For each free cell, one cell that stands for all that are connected to it."""
    home: dict[tuple[int, int], tuple[int, int]] = {}
    for root in sorted(free):
        stack = [] if root in home else [root]
        while stack:
            row, column = cell = stack.pop()
            if cell in home or cell not in free:
                continue
            home[cell] = root
            stack += [(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)]
    return home
