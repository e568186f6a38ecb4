"""The canonical form of a board, by which no two splits can hold the same one.

It is equal for boards that differ by rotation, reflection or the order of their agents. Boards up
to SMALL cells a side fall into splits by their size, starts and goals alone: on so few cells an
answer to a board of one split would often solve one of another that has its holes elsewhere.
"""

import numpy as np

from coevolve.core.splits import PARTS
from coevolve.domains.lake.board import HOLE, Board
from coevolve.domains.lake.compile import Table, Words, compiled, kernel, lowest_bit
from coevolve.domains.lake.solver.layers import ONE, ZERO

SMALL = 5


@kernel
def write_rows(free: Words, width: int, rows: Words) -> None:
    """The board's rows as they are and mirrored, and its columns as they are and mirrored."""
    height = free.shape[0]
    for side in range(4):
        for k in range(rows.shape[1]):
            rows[side, k] = ZERO
    for r in range(height):
        word = free[r]
        rows[0, r] = word
        while word != ZERO:
            c = lowest_bit(word)
            word &= word - ONE
            rows[1, r] |= ONE << np.uint64(width - 1 - c)
            rows[2, c] |= ONE << np.uint64(r)
            rows[3, c] |= ONE << np.uint64(height - 1 - r)


@kernel
def write_form(
    rows: Words, height: int, width: int, places: Words, symmetry: int, form: Words
) -> None:
    """Write height, width, rows and sorted agents of one of the board's eight images to `form`.

    `places` holds the starts, then the goals: the row in the upper half of a word, the column in
    the lower.
    """
    agents = places.shape[0] // 2
    turned = symmetry & 4 != 0
    high, wide = (width, height) if turned else (height, width)
    upside_down = symmetry & (2 if turned else 1) != 0
    mirrored = symmetry & (1 if turned else 2) != 0
    side = (2 if turned else 0) + (1 if mirrored else 0)
    form[0] = np.uint64(high)
    form[1] = np.uint64(wide)
    for r in range(high):
        form[2 + r] = rows[side, high - 1 - r if upside_down else r]
    for a in range(agents):
        code = np.uint64(
            image(places[a], height, width, symmetry) * 4096
            + image(places[agents + a], height, width, symmetry)
        )
        k = 2 + high + a
        while k > 2 + high and form[k - 1] > code:
            form[k] = form[k - 1]
            k -= 1
        form[k] = code
    form[2 + high + agents :] = ZERO  # a taller image may have been there before


@kernel
def image(place: np.uint64, height: int, width: int, symmetry: int) -> int:
    """Where a cell lands: bit 0 flips rows, bit 1 flips columns, bit 2 swaps the two axes."""
    row, column = int(place >> np.uint64(32)), int(place & np.uint64(63))
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
def make_forms(height: int, width: int, agents: int) -> Words:
    """Room for `fingerprint_in`: two forms, the rows of all images, and where the agents are, with
    a board that has no holes."""
    return np.empty((7, 2 + max(height, width) + 2 * agents), np.uint64)


@kernel
def fingerprint_in(free: Words, width: int, starts: Table, goals: Table, forms: Words) -> int:
    """A 63-bit number that stands for a board, and whose remainder decides on its split."""
    height, agents = free.shape[0], starts.shape[0]
    places = forms[6, : 2 * agents]
    for a in range(agents):
        row = starts[a] // width
        places[a] = np.uint64((row << 32) + starts[a] - row * width)
        row = goals[a] // width
        places[agents + a] = np.uint64((row << 32) + goals[a] - row * width)
    mark = least_image(free, width, places, forms)
    if height > SMALL or width > SMALL:
        return int(mark)
    empty = forms[6, 2 * agents : 2 * agents + height]
    for r in range(height):
        empty[r] = (ONE << np.uint64(width)) - ONE
    return int(mark - mark % PARTS + least_image(empty, width, places, forms) % PARTS)


@kernel
def least_image(free: Words, width: int, places: Words, forms: Words) -> np.int64:
    """A 63-bit hash of the least of the eight images of free cells and agents' places."""
    height, agents, best = free.shape[0], places.shape[0] // 2, 0
    size = forms.shape[1] - agents
    rows = forms[2:6]
    write_rows(free, width, rows)
    write_form(rows, height, width, places, 0, forms[0, :size])
    for symmetry in range(1, 8):
        other = 1 - best
        write_form(rows, height, width, places, symmetry, forms[other, :size])
        for k in range(size):
            if forms[other, k] != forms[best, k]:
                if forms[other, k] < forms[best, k]:
                    best = other
                break
    state = ZERO
    for k in range(size):
        state = mix(state, forms[best, k])
    return np.int64(state >> ONE)  # signed: numba makes floats of signed and unsigned together


@compiled
def fingerprint_of(free: Words, width: int, starts: Table, goals: Table) -> int:
    """`fingerprint_in` for one board."""
    forms = make_forms(free.shape[0], width, starts.shape[0])
    return fingerprint_in(free, width, starts, goals, forms)


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
