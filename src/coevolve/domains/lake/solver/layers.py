"""Sets of cells as bit rows, and the layers of cells an agent can occupy at each time step.

A set of cells is one 64-bit word per board row, so advancing a whole set by one move costs a
handful of machine instructions per row. The invariant: a layer holds a cell exactly if some path
that obeys the agent's rules stands there at that time.

One agent's rules are `allowed` (the cells it may stand on at each time; the last entry holds for
ever after) and `banned` (moves it may not make, rows of cell, target, time).

Compiled functions take whole tables and an index rather than slices, and loop inside: a call that
passes arrays costs more than the work on one small layer.
"""

from typing import NamedTuple

import numpy as np

from coevolve.domains.lake.compile import Table, Words, kernel, lowest_bit

ONE = np.uint64(1)
ZERO = np.uint64(0)
DOWN, RIGHT = (-1, 1, 0, 0, 0), (0, 0, -1, 1, 0)
"""Rows and columns that a move goes: up, down, left, right, stay."""


class Lake(NamedTuple):
    """What all agents share: the free cells, the board's width, and whether they may wait."""

    free: Words
    width: int
    wait: bool


@kernel
def has(sets: Words, index: int, width: int, cell: int) -> bool:
    """Whether the set of cells at `index` holds `cell`."""
    return (sets[index, cell // width] >> np.uint64(cell % width)) & ONE != ZERO


@kernel
def add(sets: Words, index: int, width: int, cell: int) -> None:
    sets[index, cell // width] |= ONE << np.uint64(cell % width)


@kernel
def remove(sets: Words, index: int, width: int, cell: int) -> None:
    sets[index, cell // width] &= ~(ONE << np.uint64(cell % width))


@kernel
def spread(sets: Words, index: int, row: int, wait: bool) -> np.uint64:
    """One row of the cells a move away from a set; staying counts as a move if `wait`."""
    word = (sets[index, row] << ONE) | (sets[index, row] >> ONE)
    if wait:
        word |= sets[index, row]
    if row > 0:
        word |= sets[index, row - 1]
    if row + 1 < sets.shape[1]:
        word |= sets[index, row + 1]
    return word


@kernel
def neighbour(height: int, width: int, cell: int, direction: int) -> int:
    """The cell one step away (up, down, left, right, stay), or -1 outside the board."""
    if direction == 0:
        return cell - width if cell >= width else -1
    if direction == 1:
        return cell + width if cell + width < height * width else -1
    if direction == 2:
        return cell - 1 if cell % width > 0 else -1
    if direction == 3:
        return cell + 1 if cell % width < width - 1 else -1
    return cell


@kernel
def may_move(banned: Table, cell: int, target: int, time: int) -> bool:
    for k in range(banned.shape[0]):
        if banned[k, 2] == time and banned[k, 0] == cell and banned[k, 1] == target:
            return False
    return True


@kernel
def linked(
    lake: Lake, sets: Words, index: int, banned: Table, time: int, cell: int, but: int, into: bool
) -> bool:
    """Whether `cell` can be entered from (`into`) or left towards a cell of a set, except `but`.

    `time` is when the move begins.
    """
    height = sets.shape[1]
    for direction in range(5 if lake.wait else 4):
        other = neighbour(height, lake.width, cell, direction)
        if other >= 0 and other != but and has(sets, index, lake.width, other):
            if into:
                if may_move(banned, other, cell, time):
                    return True
            elif may_move(banned, cell, other, time):
                return True
    return False


@kernel
def forward(
    lake: Lake, allowed: Words, settled: int, banned: Table, begin: int, end: int, reach: Words
) -> None:
    """Fill reach[begin + 1 .. end] with the cells reachable at each time, from reach[begin] on."""
    height, width, wait = reach.shape[1], lake.width, lake.wait
    for t in range(begin, end):
        mask = min(t + 1, settled)
        above, here = ZERO, reach[t, 0]
        for r in range(height):
            below = reach[t, r + 1] if r + 1 < height else ZERO
            word = (here << ONE) | (here >> ONE) | above | below | (here if wait else ZERO)
            reach[t + 1, r] = word & allowed[mask, r]
            above, here = here, below
        for k in range(banned.shape[0]):
            if banned[k, 2] == t:
                target = banned[k, 1]
                if has(reach, t + 1, width, target) and not linked(
                    lake, reach, t, banned, t, target, -1, True
                ):
                    remove(reach, t + 1, width, target)


@kernel
def begin_at(lake: Lake, start: int, allowed: Words, reach: Words) -> None:
    """Fill reach[0]: the start alone, or nothing where the rules exclude it."""
    for r in range(reach.shape[1]):
        reach[0, r] = ZERO
    add(reach, 0, lake.width, start)
    for r in range(reach.shape[1]):
        reach[0, r] &= allowed[0, r]


@kernel
def arrives(lake: Lake, reach: Words, goal: int, banned: Table, time: int) -> bool:
    """Whether the goal can be entered, from another cell, exactly at `time`."""
    if not has(reach, time, lake.width, goal):
        return False
    return time == 0 or linked(lake, reach, time - 1, banned, time - 1, goal, goal, True)


@kernel
def arrival(
    lake: Lake,
    start: int,
    goal: int,
    allowed: Words,
    settled: int,
    banned: Table,
    least: int,
    most: int,
    reach: Words,
) -> int:
    """The first time from `least` to `most` at which the agent can arrive for good.

    Fills reach[0..result]. Returns -1 if there is none and -2 if the buffer ends first.
    """
    last = settled
    for k in range(banned.shape[0]):
        last = max(last, banned[k, 2] + 1)
    if least > most:
        return -1
    if least >= reach.shape[0]:
        return -2
    begin_at(lake, start, allowed, reach)
    forward(lake, allowed, settled, banned, 0, least, reach)
    time = least
    while True:
        if arrives(lake, reach, goal, banned, time):
            return time
        if time >= most:
            return -1
        if time > max(last, least) + 2:
            repeats = True
            for r in range(reach.shape[1]):
                repeats = repeats and reach[time, r] == reach[time - 2, r]
            if repeats:  # the layers alternate from here on, and neither of the two arrives
                return -1
        if time + 1 >= reach.shape[0]:
            return -2
        forward(lake, allowed, settled, banned, time, time + 1, reach)
        time += 1


@kernel
def backward(
    lake: Lake, reach: Words, goal: int, banned: Table, length: int, out: Words, slot: int
) -> None:
    """Fill out[slot, 0..length] with the cells on paths that arrive exactly at `length`."""
    height, width = reach.shape[1], lake.width
    layers = out[slot]
    for r in range(height):
        layers[length, r] = ZERO
    add(layers, length, width, goal)
    for t in range(length - 1, -1, -1):
        above, here = ZERO, layers[t + 1, 0]
        for r in range(height):
            below = layers[t + 1, r + 1] if r + 1 < height else ZERO
            word = (here << ONE) | (here >> ONE) | above | below | (here if lake.wait else ZERO)
            layers[t, r] = word & reach[t, r]
            above, here = here, below
        if t == length - 1:
            remove(layers, t, width, goal)
        for k in range(banned.shape[0]):
            if banned[k, 2] == t:
                cell = banned[k, 0]
                if has(layers, t, width, cell) and not linked(
                    lake, layers, t + 1, banned, t, cell, -1, False
                ):
                    remove(layers, t, width, cell)


@kernel
def single(out: Words, slot: int, length: int, time: int) -> bool:
    """Whether an agent's layers hold just one cell at `time`."""
    if time >= length:
        return True
    found = False
    for r in range(out.shape[2]):
        word = out[slot, time, r]
        if word != ZERO:
            if found or word & (word - ONE) != ZERO:
                return False
            found = True
    return found


@kernel
def distances(lake: Lake, goal: int, out: Table, sets: Words) -> None:
    """Fill out[cell] with the number of moves to `goal`, -1 where it cannot be reached.

    `sets` is spare room for three sets of cells; those of a small board need one word.
    """
    height, width = lake.free.shape[0], lake.width
    for cell in range(out.shape[0]):
        out[cell] = -1
    if small(lake):
        fill_small(lake, goal, out)
        return
    for r in range(height):
        sets[0, r] = sets[1, r] = ZERO  # seen, current layer; the third is the next layer
    add(sets, 1, width, goal)
    steps = 0
    alive = True
    while alive:
        for r in range(height):
            word = sets[1, r]
            sets[0, r] |= word
            while word != ZERO:
                out[r * width + lowest_bit(word)] = steps
                word &= word - ONE
        for r in range(height):
            sets[2, r] = spread(sets, 1, r, False) & lake.free[r] & ~sets[0, r]
        alive = False
        for r in range(height):
            sets[1, r] = sets[2, r]
            alive = alive or sets[1, r] != ZERO
        steps += 1


@kernel
def small(lake: Lake) -> bool:
    """Whether a set of cells fits in one word, and a row of it can be shifted out of one."""
    return lake.free.shape[0] * lake.width <= 64 and lake.width < 64


@kernel
def left_column(height: int, width: int) -> np.uint64:
    """The first column of a small board, in one word."""
    found = ZERO
    for r in range(height):
        found |= ONE << np.uint64(r * width)
    return found


@kernel
def around(cells: np.uint64, left: np.uint64, width: int) -> np.uint64:
    """The cells a move away from a set in one word, and some beyond the board's last."""
    right, wide = left << np.uint64(width - 1), np.uint64(width)
    sideways = ((cells & ~right) << ONE) | ((cells & ~left) >> ONE)
    return sideways | (cells << wide) | (cells >> wide)


@kernel
def fill_small(lake: Lake, goal: int, out: Table) -> None:
    """The distances on a board that is small."""
    height, width = lake.free.shape[0], lake.width
    left, unseen = left_column(height, width), ZERO
    for r in range(height):
        unseen |= lake.free[r] << np.uint64(r * width)
    layer = ONE << np.uint64(goal)
    steps = 0
    while layer != ZERO:
        unseen &= ~layer
        word = layer
        while word != ZERO:
            out[lowest_bit(word)] = steps
            word &= word - ONE
        layer = around(layer, left, width) & unseen
        steps += 1
