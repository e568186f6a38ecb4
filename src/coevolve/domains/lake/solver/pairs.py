"""Lower bounds on what agents must pay to get out of each other's way.

`compatible` walks two agents through their layers together; `pair_excess` raises their path
lengths until they are compatible; `cover` turns the excesses of all pairs into one admissible
bound for the whole board (a minimum weighted vertex cover).
"""

import numpy as np

from coevolve.domains.lake.compile import Table, Words, compiled, kernel, lowest_bit
from coevolve.domains.lake.solver.layers import (
    ONE,
    ZERO,
    Lake,
    around,
    arrives,
    backward,
    begin_at,
    forward,
    has,
    left_column,
    linked,
    may_move,
    neighbour,
    remove,
    small,
    spread,
)

EXCESS_CAP = 6
"""Pairs that need more than this are given this plus one, which is still a lower bound."""
COVER_STEPS = 3000
"""Search steps after which `cover` settles for the weaker bound of a greedy matching."""


@kernel
def bans_at(banned: Table, time: int) -> bool:
    for k in range(banned.shape[0]):
        if banned[k, 2] == time:
            return True
    return False


@kernel
def packed(layers: Words, slot: int, time: int, width: int) -> np.uint64:
    """A layer of a board of at most 64 cells as one word, a bit for each cell."""
    found = ZERO
    for r in range(layers.shape[2]):
        found |= layers[slot, time, r] << np.uint64(r * width)
    return found


@kernel
def step_to(bit: np.uint64, left: np.uint64, width: int, direction: int) -> np.uint64:
    """The cell one step away (up, down, left, right, stay) of a cell, each as a bit of one word.

    None beyond the sides; beyond the last row there may be a bit that no board has.
    """
    if direction == 0:
        return bit >> np.uint64(width)
    if direction == 1:
        return bit << np.uint64(width)
    if direction == 2:
        return (bit & ~left) >> ONE
    if direction == 3:
        return (bit & ~(left << np.uint64(width - 1))) << ONE
    return bit


@kernel
def entered(
    lake: Lake,
    cells: np.uint64,
    banned: Table,
    time: int,
    target: np.uint64,
    but: np.uint64,
    left: np.uint64,
) -> bool:
    """`linked` into a cell, from a set of cells without `but`, each in one word."""
    around_it = cells & around(target, left, lake.width) & ~but
    if lake.wait:
        around_it |= cells & target & ~but
    if banned.shape[0] == 0:
        return around_it != ZERO
    while around_it != ZERO:
        if may_move(banned, lowest_bit(around_it), lowest_bit(target), time):
            return True
        around_it &= around_it - ONE
    return False


@kernel
def compatible_small(
    lake: Lake,
    layers: Words,
    first: int,
    first_length: int,
    first_banned: Table,
    second: int,
    second_length: int,
    second_banned: Table,
    pairs: Words,
) -> bool:
    """`compatible` for boards of at most 64 cells, where pairs[side, c, 0] holds a whole set."""
    height, width = lake.free.shape[0], lake.width
    left = left_column(height, width)
    now = packed(layers, first, 0, width)
    cell = lowest_bit(now)
    pairs[0, cell, 0] = packed(layers, second, 0, width) & ~(ONE << np.uint64(cell))
    for t in range(max(first_length, second_length)):
        here, there = t % 2, 1 - t % 2
        following = packed(layers, first, min(t + 1, first_length), width)
        reach = packed(layers, second, min(t + 1, second_length), width)
        first_bans, second_bans = bans_at(first_banned, t), bans_at(second_banned, t)
        low, high = (4, 5) if t >= first_length else (0, 5 if lake.wait else 4)
        word = following
        while word != ZERO:
            pairs[there, lowest_bit(word), 0] = ZERO
            word &= word - ONE
        alive = ZERO
        word = now
        while word != ZERO:
            cell = lowest_bit(word)
            word &= word - ONE
            others = pairs[here, cell, 0]
            if others == ZERO:
                continue
            moved = others
            if t < second_length:
                moved = around(others, left, width) & reach
                if lake.wait:
                    moved |= others & reach
            if second_bans:
                for k in range(second_banned.shape[0]):
                    target = second_banned[k, 1]
                    if second_banned[k, 2] == t and (moved >> np.uint64(target)) & ONE != ZERO:
                        goal = ONE << np.uint64(target)
                        if not entered(lake, others, second_banned, t, goal, ZERO, left):
                            moved &= ~goal
            own = ONE << np.uint64(cell)
            for direction in range(low, high):
                bit = step_to(own, left, width, direction) & following
                if bit == ZERO:
                    continue
                target = lowest_bit(bit)
                if first_bans and not may_move(first_banned, cell, target, t):
                    continue
                joined = pairs[there, target, 0]
                swaps = (
                    direction < 4
                    and moved & own != ZERO
                    and others & bit != ZERO
                    and joined & own == ZERO
                    and not entered(lake, others, second_banned, t, own, bit, left)
                )
                joined = (joined | moved) & ~bit
                if swaps:
                    joined &= ~own
                pairs[there, target, 0] = joined
                alive |= joined
        if alive == ZERO:
            return False
        now = following
    return True


@kernel
def compatible(
    lake: Lake,
    layers: Words,
    first: int,
    first_length: int,
    first_banned: Table,
    second: int,
    second_length: int,
    second_banned: Table,
    pairs: Words,
) -> bool:
    """Whether two agents can follow layers[first] and layers[second] without a conflict.

    pairs[side, c] holds the cells where the second agent may stand while the first stands at c;
    the first two sides take turns as the current and the next time step, the third is spare.
    """
    height, width = lake.free.shape[0], lake.width
    if small(lake):
        return compatible_small(
            lake,
            layers,
            first,
            first_length,
            first_banned,
            second,
            second_length,
            second_banned,
            pairs,
        )
    moved = pairs[2]
    for r in range(height):
        if layers[first, 0, r] != ZERO:
            cell = r * width + lowest_bit(layers[first, 0, r])
            for q in range(height):
                pairs[0, cell, q] = layers[second, 0, q]
            remove(pairs[0], cell, width, cell)
    for t in range(max(first_length, second_length)):
        here, there = pairs[t % 2], pairs[1 - t % 2]
        now, following = min(t, first_length), min(t + 1, first_length)
        first_bans, second_bans = bans_at(first_banned, t), bans_at(second_banned, t)
        low, high = (4, 5) if t >= first_length else (0, 5 if lake.wait else 4)
        for r in range(height):
            word = layers[first, following, r]
            while word != ZERO:
                cell = r * width + lowest_bit(word)
                word &= word - ONE
                for q in range(height):
                    there[cell, q] = ZERO
        alive = ZERO
        for r in range(height):
            word = layers[first, now, r]
            while word != ZERO:
                cell = r * width + lowest_bit(word)
                word &= word - ONE
                some = ZERO
                for q in range(height):
                    some |= here[cell, q]
                if some == ZERO:
                    continue
                for q in range(height):
                    if t < second_length:
                        moved[0, q] = spread(here, cell, q, lake.wait) & layers[second, t + 1, q]
                    else:
                        moved[0, q] = here[cell, q]
                if second_bans:
                    for k in range(second_banned.shape[0]):
                        target = second_banned[k, 1]
                        if second_banned[k, 2] == t and has(moved, 0, width, target):
                            if not linked(lake, here, cell, second_banned, t, target, -1, True):
                                remove(moved, 0, width, target)
                for direction in range(low, high):
                    target = neighbour(height, width, cell, direction)
                    if (
                        target < 0
                        or not has(layers[first], following, width, target)
                        or (first_bans and not may_move(first_banned, cell, target, t))
                    ):
                        continue
                    swaps = (
                        target != cell
                        and has(moved, 0, width, cell)
                        and has(here, cell, width, target)
                        and not has(there, target, width, cell)
                        and not linked(lake, here, cell, second_banned, t, cell, target, True)
                    )
                    for q in range(height):
                        there[target, q] |= moved[0, q]
                    remove(there, target, width, target)
                    if swaps:
                        remove(there, target, width, cell)
                    for q in range(height):
                        alive |= there[target, q]
        if alive == ZERO:
            return False
    return True


@kernel
def pair_excess(
    lake: Lake,
    a: int,
    b: int,
    starts: Table,
    goals: Table,
    lengths: Table,
    most: Table,
    allowed: Words,
    settled: Table,
    first_banned: Table,
    second_banned: Table,
    buffers: Words,
    pairs: Words,
) -> int:
    """How much longer than `lengths` the paths of a and b must be, together, to be compatible."""
    cap = min(EXCESS_CAP, buffers.shape[1] - 1 - max(lengths[a], lengths[b]))
    reach_a, reach_b = buffers[0], buffers[1]
    begin_at(lake, starts[a], allowed[a], reach_a)
    begin_at(lake, starts[b], allowed[b], reach_b)
    done_a = done_b = 0
    for excess in range(cap + 1):
        forward(lake, allowed[a], settled[a], first_banned, done_a, lengths[a] + excess, reach_a)
        forward(lake, allowed[b], settled[b], second_banned, done_b, lengths[b] + excess, reach_b)
        done_a, done_b = lengths[a] + excess, lengths[b] + excess
        for more in range(excess + 1):
            first, second = lengths[a] + more, lengths[b] + excess - more
            if (
                first > most[a]
                or second > most[b]
                or not arrives(lake, reach_a, goals[a], first_banned, first)
                or not arrives(lake, reach_b, goals[b], second_banned, second)
            ):
                continue
            backward(lake, reach_a, goals[a], first_banned, first, buffers, 2)
            backward(lake, reach_b, goals[b], second_banned, second, buffers, 3)
            if compatible(lake, buffers, 2, first, first_banned, 3, second, second_banned, pairs):
                return excess
    return int(cap + 1)


@compiled
def cover(weights: Table) -> int:
    """The least sum of x with x[i] + x[j] >= weights[i, j], or a lower bound on it."""
    count = weights.shape[0]
    order = np.empty(count, np.int64)
    chosen = 0
    for i in range(count):
        if weights[i].max() > 0:
            order[chosen] = i
            chosen += 1
    greedy = 0
    used = np.zeros(count, np.bool_)
    while True:
        best, left, right = 0, -1, -1
        for p in range(chosen):
            for q in range(p):
                i, j = order[p], order[q]
                if not used[i] and not used[j] and weights[i, j] > best:
                    best, left, right = weights[i, j], i, j
        if best == 0:
            break
        greedy += best
        used[left] = used[right] = True
    value = np.zeros(count, np.int64)
    sums = np.zeros(count + 1, np.int64)
    best_sum = 1 << 30
    depth = 0
    steps = 0
    fresh = True
    while depth >= 0:
        steps += 1
        if steps > COVER_STEPS:
            return greedy
        if depth == chosen:
            best_sum = min(best_sum, sums[depth])
            depth -= 1
            fresh = False
            continue
        i = order[depth]
        if fresh:
            least = 0
            for p in range(depth):
                least = max(least, weights[i, order[p]] - value[p])
            value[depth] = least
        else:
            value[depth] += 1
        if value[depth] > weights[i].max() or sums[depth] + value[depth] >= best_sum:
            depth -= 1
            fresh = False
            continue
        sums[depth + 1] = sums[depth] + value[depth]
        depth += 1
        fresh = True
    return max(best_sum, greedy)
