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
    arrives,
    backward,
    begin_at,
    forward,
    has,
    linked,
    may_move,
    neighbour,
    remove,
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
