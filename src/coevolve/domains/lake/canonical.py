"""The canonical form of a board, by which no two splits can hold the same one.

It is equal for boards that differ by rotation, reflection or the order of their agents.
"""

import numpy as np

from coevolve.domains.lake.board import HOLE, Board
from coevolve.domains.lake.compile import Table, Words, compiled, kernel
from coevolve.domains.lake.solver.layers import ONE, ZERO


@kernel
def write_form(
    free: Words, width: int, starts: Table, goals: Table, symmetry: int, form: Words
) -> None:
    """Write height, width, rows and sorted agents of one of the board's eight images to `form`."""
    height = free.shape[0]
    turned = symmetry & 4 != 0
    high, wide = (width, height) if turned else (height, width)
    form[0] = np.uint64(high)
    form[1] = np.uint64(wide)
    for r in range(high):
        form[2 + r] = ZERO
    for r in range(height):
        for c in range(width):
            if (free[r] >> np.uint64(c)) & ONE != ZERO:
                cell = image(r * width + c, height, width, symmetry)
                form[2 + cell // wide] |= ONE << np.uint64(cell % wide)
    for a in range(starts.shape[0]):
        code = np.uint64(
            image(starts[a], height, width, symmetry) * 4096
            + image(goals[a], height, width, symmetry)
        )
        k = 2 + high + a
        while k > 2 + high and form[k - 1] > code:
            form[k] = form[k - 1]
            k -= 1
        form[k] = code
    form[2 + high + starts.shape[0] :] = ZERO  # a taller image may have been there before


@kernel
def image(cell: int, height: int, width: int, symmetry: int) -> int:
    """Where a cell lands: bit 0 flips rows, bit 1 flips columns, bit 2 swaps the two axes."""
    row, column = cell // width, cell % width
    if symmetry & 1 != 0:
        row = height - 1 - row
    if symmetry & 2 != 0:
        column = width - 1 - column
    if symmetry & 4 != 0:
        return column * height + row
    return row * width + column


@kernel
def mix(state: np.uint64, word: np.uint64) -> np.uint64:
    """One step of a 64-bit hash (the finaliser of splitmix64)."""
    z = (state ^ word) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@compiled
def fingerprint_of(free: Words, width: int, starts: Table, goals: Table) -> int:
    """A 63-bit hash of the least of the board's eight images."""
    size = 2 + max(free.shape[0], width) + starts.shape[0]
    forms = np.zeros((2, size), np.uint64)
    best = 0
    write_form(free, width, starts, goals, 0, forms[0])
    for symmetry in range(1, 8):
        other = 1 - best
        write_form(free, width, starts, goals, symmetry, forms[other])
        for k in range(size):
            if forms[other, k] != forms[best, k]:
                if forms[other, k] < forms[best, k]:
                    best = other
                break
    state = ZERO
    for k in range(size):
        state = mix(state, forms[best, k])
    return int(state >> ONE)


def arrays_of(board: Board) -> tuple[Words, int, Table, Table]:
    """A board as the arrays that compiled functions take: free rows, width, starts, goals."""
    width = board.width
    free = np.array(
        [sum(1 << c for c, mark in enumerate(row) if mark != HOLE) for row in board.rows],
        np.uint64,
    )
    starts = np.array([r * width + c for r, c in board.starts], np.int64)
    goals = np.array([r * width + c for r, c in board.goals], np.int64)
    return free, width, starts, goals


def fingerprint(board: Board) -> int:
    """The same number for all boards that are equal up to symmetry."""
    return int(fingerprint_of(*arrays_of(board)))
