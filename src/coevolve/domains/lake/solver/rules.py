"""Splits of the search tree, and what they mean for each agent: its rules.

A split is a row of the tree's node table; `gather` turns the splits on the way to the root into
the cells each agent may stand on and the moves it may not make.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coevolve.domains.lake.compile import Table, Words, compiled, kernel
from coevolve.domains.lake.solver.layers import ONE, ZERO, Lake, remove

Paths = NDArray[np.int16]

NOT_AT, NOT_MOVE, AT, MOVE, LATER, BY = 0, 1, 2, 3, 4, 5
"""Splits: an agent is (not) at a cell, does (not) make a move, arrives after or by a time."""
PARENT, SPLIT, AGENT, FROM, TO, WHEN, COST, CONFLICTS, BOUND, DEPTH = range(10)
"""Columns of the node table."""
FAR = 1 << 30


class Tree(NamedTuple):
    """All nodes so far, as parallel arrays."""

    nodes: Table
    paths: Paths
    lengths: Table
    weights: Table


class Rules(NamedTuple):
    """The rules of every agent; the slot after the last agent is for trying a split out."""

    allowed: Words
    settled: Table
    banned: Table
    banned_counts: Table
    least: Table
    most: Table


@compiled
def make_rules(agents: int, height: int, horizon: int, depth: int) -> Rules:
    return Rules(
        np.empty((agents + 1, horizon + 1, height), np.uint64),
        np.zeros(agents + 1, np.int64),
        np.empty((agents + 1, depth, 3), np.int64),
        np.zeros(agents + 1, np.int64),
        np.zeros(agents + 1, np.int64),
        np.zeros(agents + 1, np.int64),
    )


@kernel
def settle(rules: Rules, slot: int, time: int) -> None:
    """Make room in the slot's allowed cells for a rule about `time`."""
    settled = rules.settled[slot]
    if time < settled:
        return
    for t in range(settled + 1, time + 2):
        for r in range(rules.allowed.shape[2]):
            rules.allowed[slot, t, r] = rules.allowed[slot, settled, r]
    rules.settled[slot] = time + 1


@kernel
def avoid(rules: Rules, slot: int, width: int, goal: int, cell: int, time: int) -> None:
    settle(rules, slot, time)
    remove(rules.allowed[slot], time, width, cell)
    if cell == goal:
        rules.least[slot] = max(rules.least[slot], time + 1)


@kernel
def visit(rules: Rules, slot: int, width: int, goal: int, cell: int, time: int) -> None:
    settle(rules, slot, time)
    for r in range(rules.allowed.shape[2]):
        if r == cell // width:
            rules.allowed[slot, time, r] &= ONE << np.uint64(cell % width)
        else:
            rules.allowed[slot, time, r] = ZERO
    if cell != goal:
        rules.least[slot] = max(rules.least[slot], time + 1)


@kernel
def ban(rules: Rules, slot: int, cell: int, target: int, time: int) -> None:
    k = rules.banned_counts[slot]
    rules.banned[slot, k, 0] = cell
    rules.banned[slot, k, 1] = target
    rules.banned[slot, k, 2] = time
    rules.banned_counts[slot] = k + 1


@kernel
def impose(rules: Rules, width: int, goals: Table, slot: int, agent: int, row: Table) -> None:
    """Add what the split in `row` means for `agent` to the rules in `slot`."""
    split, cell, target, time = row[SPLIT], row[FROM], row[TO], row[WHEN]
    goal = goals[agent]
    if agent == row[AGENT]:
        if split == NOT_AT:
            avoid(rules, slot, width, goal, cell, time)
        elif split == NOT_MOVE:
            ban(rules, slot, cell, target, time)
        elif split == LATER:
            rules.least[slot] = max(rules.least[slot], time)
        elif split == BY:
            rules.most[slot] = min(rules.most[slot], time)
        else:
            visit(rules, slot, width, goal, cell, time)
            if split == MOVE:
                visit(rules, slot, width, goal, target, time + 1)
    elif split == AT or split == MOVE:
        avoid(rules, slot, width, goal, cell, time)
        if split == MOVE:
            avoid(rules, slot, width, goal, target, time + 1)
            ban(rules, slot, target, cell, time)
    elif split == BY:
        settle(rules, slot, time)
        for t in range(time, rules.settled[slot] + 1):
            remove(rules.allowed[slot], t, width, cell)


@kernel
def gather(lake: Lake, tree: Tree, node: int, goals: Table, rules: Rules, agent: int) -> None:
    """Collect the rules of an agent from the splits on the way to the root."""
    rules.settled[agent] = 0
    rules.banned_counts[agent] = 0
    rules.least[agent] = 0
    rules.most[agent] = FAR
    for r in range(lake.free.shape[0]):
        rules.allowed[agent, 0, r] = lake.free[r]
    while node > 0:
        split = tree.nodes[node, SPLIT]
        shared = split == AT or split == MOVE or split == BY
        if shared or tree.nodes[node, AGENT] == agent:
            impose(rules, lake.width, goals, agent, agent, tree.nodes[node])
        node = tree.nodes[node, PARENT]


@kernel
def gather_all(lake: Lake, tree: Tree, node: int, goals: Table, rules: Rules) -> None:
    for agent in range(goals.shape[0]):
        gather(lake, tree, node, goals, rules, agent)


@kernel
def position(paths: Paths, lengths: Table, agent: int, time: int) -> int:
    return int(paths[agent, min(time, lengths[agent])])


@kernel
def breaks(paths: Paths, lengths: Table, agent: int, row: Table) -> bool:
    """Whether an agent's path contradicts the split in `row`."""
    split, a, cell, target, time = row[SPLIT], row[AGENT], row[FROM], row[TO], row[WHEN]
    now = position(paths, lengths, agent, time)
    after = position(paths, lengths, agent, time + 1)
    if agent == a:
        if split == NOT_AT:
            return now == cell
        if split == NOT_MOVE:
            return now == cell and after == target
        if split == LATER:
            return lengths[agent] < time
        return False
    if split == AT:
        return now == cell
    if split == MOVE:
        return now == cell or after == target or (now == target and after == cell)
    if split == BY:
        for t in range(time, lengths[agent] + 1):
            if paths[agent, t] == cell:
                return True
    return False
