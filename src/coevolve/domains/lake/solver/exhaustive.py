"""Optimal cost by trying every joint move: slow, simple, and independent of the other search.

It proves that small boards cannot be solved, and it is what the tests hold the search against.
Dijkstra's algorithm over the positions of all agents together with who has arrived for good; an
agent that has not pays one for every step.
"""

import numpy as np

from coevolve.domains.lake.compile import Table, compiled
from coevolve.domains.lake.solver.layers import ONE, ZERO, Lake, neighbour


@compiled
def number_cells(lake: Lake) -> tuple[Table, Table]:
    """The free cells, and for each cell of the board its place among them (-1 for holes)."""
    cells = np.empty(lake.free.shape[0] * lake.width, np.int64)
    places = np.full(cells.shape[0], -1, np.int64)
    count = 0
    for cell in range(cells.shape[0]):
        if (lake.free[cell // lake.width] >> np.uint64(cell % lake.width)) & ONE != ZERO:
            cells[count] = cell
            places[cell] = count
            count += 1
    return cells[:count], places


@compiled
def neighbours_of(lake: Lake, cells: Table, places: Table) -> Table:
    """(cells, 5): where each direction leads from each free cell, -1 where that is not free."""
    table = np.full((cells.shape[0], 5), -1, np.int64)
    for k in range(cells.shape[0]):
        for direction in range(5):
            target = neighbour(lake.free.shape[0], lake.width, cells[k], direction)
            if target >= 0:
                table[k, direction] = places[target]
    return table


@compiled
def decode(code: int, count: int, here: Table) -> None:
    for a in range(here.shape[0]):
        here[a] = code % count
        code //= count


@compiled
def step_code(table: Table, wait: bool, here: Table, arrived: int, move: int, there: Table) -> int:
    """The joint positions after joint move number `move`, or -1 if it is not allowed.

    Arrived agents stay and take up no digit of the move number.
    """
    choices = 5 if wait else 4
    code, factor = 0, 1
    for a in range(here.shape[0]):
        if (arrived >> a) & 1:
            there[a] = here[a]
        else:
            there[a] = table[here[a], move % choices]
            move //= choices
            if there[a] < 0:
                return -1
        for b in range(a):
            if there[a] == there[b] or (there[a] == here[b] and there[b] == here[a]):
                return -1
        code += there[a] * factor
        factor *= table.shape[0]
    return code


@compiled
def exhaustive_cost(lake: Lake, starts: Table, goals: Table, states: int) -> int:
    """The least sum of costs; -1 if there is no plan, -2 if there are more than `states` states."""
    agents = starts.shape[0]
    cells, place_of = number_cells(lake)
    count = cells.shape[0]
    masks = 1 << agents
    positions = 1
    for _ in range(agents):
        positions *= count
        if positions * masks > states:
            return -2
    table = neighbours_of(lake, cells, place_of)
    best = np.full(positions * masks, -1, np.int32)
    here = np.empty(agents, np.int64)
    there = np.empty(agents, np.int64)
    start, factor = 0, 1
    for a in range(agents):
        start += place_of[starts[a]] * factor
        factor *= count
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
            decode(state // masks, count, here)
            moving = 0
            for a in range(agents):
                if (arrived >> a) & 1 == 0:
                    moving += 1
                    if here[a] == place_of[goals[a]]:
                        append(lists, sizes, now, state + (1 << a))
            moves = (5 if lake.wait else 4) ** moving
            for move in range(moves):
                code = step_code(table, lake.wait, here, arrived, move, there)
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
