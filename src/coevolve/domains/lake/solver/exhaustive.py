"""Optimal cost by trying every joint move: slow, simple, and independent of the other search.

It proves that small boards cannot be solved, and it is what the tests hold the search against.
Dijkstra's algorithm over the positions of all agents together with who has arrived for good; an
agent that has not pays one for every step.
"""

import numpy as np

from coevolve.domains.lake.compiled import Table, compiled
from coevolve.domains.lake.solver.layers import ONE, ZERO, Lake, neighbour


@compiled
def decode(code: int, cells: int, places: Table) -> None:
    for a in range(places.shape[0]):
        places[a] = code % cells
        code //= cells


@compiled
def step_code(
    lake: Lake, places: Table, arrived: int, move: int, cells: int, targets: Table
) -> int:
    """The joint positions after joint move number `move`, or -1 if it is not allowed.

    Arrived agents stay and take up no digit of the move number.
    """
    agents = places.shape[0]
    choices = 5 if lake.wait else 4
    code, factor = 0, 1
    for a in range(agents):
        if (arrived >> a) & 1:
            targets[a] = places[a]
        else:
            target = neighbour(lake.free.shape[0], lake.width, places[a], move % choices)
            move //= choices
            if target < 0:
                return -1
            if (lake.free[target // lake.width] >> np.uint64(target % lake.width)) & ONE == ZERO:
                return -1
            targets[a] = target
        for b in range(a):
            if targets[a] == targets[b]:
                return -1
            if targets[a] == places[b] and targets[b] == places[a]:
                return -1
        code += targets[a] * factor
        factor *= cells
    return code


@compiled
def exhaustive_cost(lake: Lake, starts: Table, goals: Table, states: int) -> int:
    """The least sum of costs; -1 if there is no plan, -2 if there are too many positions."""
    agents = starts.shape[0]
    cells = lake.free.shape[0] * lake.width
    positions = 1
    for _ in range(agents):
        positions *= cells
        if positions > 64 * states:
            return -2
    masks = 1 << agents
    best = np.full(positions * masks, -1, np.int32)
    places = np.empty(agents, np.int64)
    targets = np.empty(agents, np.int64)
    start, factor = 0, 1
    for a in range(agents):
        start += starts[a] * factor
        factor *= cells
    # Buckets by cost: a step costs at most `agents`, so that many lists besides the current one.
    lists = [np.empty(64, np.int64) for _ in range(agents + 1)]
    sizes = np.zeros(agents + 1, np.int64)
    lists[0][0] = start * masks
    sizes[0] = 1
    cost, empty = 0, 0
    while empty <= agents:
        now = cost % (agents + 1)
        empty += 1
        index = 0
        while index < sizes[now]:
            empty = 0
            state = lists[now][index]
            index += 1
            if best[state] >= 0:
                continue
            best[state] = cost
            arrived = state % masks
            if arrived == masks - 1:
                return cost
            decode(state // masks, cells, places)
            moving = 0
            for a in range(agents):
                if (arrived >> a) & 1 == 0:
                    moving += 1
                    if places[a] == goals[a]:
                        append(lists, sizes, now, state + (1 << a))
            moves = (5 if lake.wait else 4) ** moving
            for move in range(moves):
                code = step_code(lake, places, arrived, move, cells, targets)
                if code >= 0 and best[code * masks + arrived] < 0:
                    append(lists, sizes, (cost + moving) % (agents + 1), code * masks + arrived)
        sizes[now] = 0
        cost += 1
    return -1


@compiled
def append(lists: list[Table], sizes: Table, which: int, value: int) -> None:
    """Append to one of several growing lists."""
    if sizes[which] == lists[which].shape[0]:
        lists[which] = np.concatenate((lists[which], np.empty_like(lists[which])))
    lists[which][sizes[which]] = value
    sizes[which] += 1
