"""Conflict-Based Search: plans for all agents with the least sum of costs.

Best-first search over sets of rules. A node holds one path per agent, each as short as its rules
allow; where two paths conflict, two children split on what one of the two agents does there.
What makes it fast: layers instead of single paths, disjoint splits (one child forces what the
other forbids), splits on the arrival time where an agent rests in the way, a bound from the
excess of all conflicting pairs, and bypasses (paths with fewer conflicts at the same cost).

Invariant: a node's cost plus its bound never exceeds the cost of any solution below it, so the
first node without conflicts that leaves the queue is optimal.
"""

import numpy as np

from coevolve.domains.lake.compile import Table, compiled, kernel
from coevolve.domains.lake.solver.branch import choose_splits, refine
from coevolve.domains.lake.solver.layers import Lake
from coevolve.domains.lake.solver.replan import Scratch, count_conflicts, make_scratch, replan
from coevolve.domains.lake.solver.rules import (
    BOUND,
    CONFLICTS,
    COST,
    DEPTH,
    FAR,
    PARENT,
    Paths,
    Rules,
    Tree,
    breaks,
    gather,
    gather_all,
    make_rules,
)

SOLVED, EXCEEDED, GAVE_UP, SHORT = 0, 1, 2, 3
"""Solved; nothing within the cost bound; node limit reached; the horizon is too short."""
ROOM = 8
"""Nodes that a tree has room for at first; most searches end with fewer."""


@kernel
def push(heap: Table, size: int, key: int, value: int) -> None:
    """Insert into a binary heap of (key, value) rows that holds `size` entries."""
    i = size
    while i > 0:
        up = (i - 1) >> 1
        if heap[up, 0] <= key:
            break
        heap[i, 0], heap[i, 1] = heap[up, 0], heap[up, 1]
        i = up
    heap[i, 0] = key
    heap[i, 1] = value


@kernel
def pop(heap: Table, size: int) -> int:
    """Remove the entry with the least key and return its value."""
    result = heap[0, 1]
    key, value = heap[size - 1, 0], heap[size - 1, 1]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size - 1:
            break
        if child + 1 < size - 1 and heap[child + 1, 0] < heap[child, 0]:
            child += 1
        if heap[child, 0] >= key:
            break
        heap[i, 0], heap[i, 1] = heap[child, 0], heap[child, 1]
        i = child
    heap[i, 0] = key
    heap[i, 1] = value
    return int(result)


@kernel
def key_of(row: Table, index: int) -> int:
    """Queue order: least cost plus bound, then fewest conflicts, then the newest node."""
    return int(((row[COST] + row[BOUND]) << 44) + (row[CONFLICTS] << 32) + (FAR - index))


@compiled
def grow(tree: Tree) -> Tree:
    """The same tree with room for twice as many nodes."""
    size = tree.nodes.shape[0]
    nodes = np.empty((2 * size, tree.nodes.shape[1]), np.int64)
    paths = np.empty((2 * size, tree.paths.shape[1], tree.paths.shape[2]), np.int16)
    lengths = np.empty((2 * size, tree.lengths.shape[1]), np.int64)
    weights = np.empty((2 * size, tree.weights.shape[1], tree.weights.shape[2]), np.int64)
    nodes[:size] = tree.nodes
    paths[:size] = tree.paths
    lengths[:size] = tree.lengths
    weights[:size] = tree.weights
    return Tree(nodes, paths, lengths, weights)


@kernel
def inherit(tree: Tree, source: int, target: int) -> None:
    """Copy paths, lengths and weights from one node to another."""
    for a in range(tree.lengths.shape[1]):
        length = tree.lengths[source, a]
        tree.lengths[target, a] = length
        for t in range(length + 1):
            tree.paths[target, a, t] = tree.paths[source, a, t]
        for b in range(tree.lengths.shape[1]):
            tree.weights[target, a, b] = tree.weights[source, a, b]


@kernel
def make_child(
    lake: Lake,
    starts: Table,
    goals: Table,
    tree: Tree,
    node: int,
    child: int,
    rules: Rules,
    scratch: Scratch,
) -> int:
    """Plan a child of `node` under the split in its row; 0, or -1 / -2 as `arrival` says."""
    inherit(tree, node, child)
    paths, lengths, row = tree.paths[child], tree.lengths[child], tree.nodes[child]
    row[DEPTH] = tree.nodes[node, DEPTH] + 1
    for agent in range(starts.shape[0]):
        if breaks(paths, lengths, agent, row):
            gather(lake, tree, child, goals, rules, agent)
            lengths[agent] = -1
            status = replan(lake, agent, starts, goals, paths, lengths, rules, scratch)
            if status < 0:
                return status
            for other in range(starts.shape[0]):
                tree.weights[child, agent, other] = -1
                tree.weights[child, other, agent] = -1
    row[COST] = 0
    for agent in range(starts.shape[0]):
        row[COST] += lengths[agent]
    row[CONFLICTS] = count_conflicts(paths, lengths)
    row[BOUND] = max(0, tree.nodes[node, COST] + tree.nodes[node, BOUND] - row[COST])
    return 0


@compiled
def expand(
    lake: Lake,
    starts: Table,
    goals: Table,
    tree: Tree,
    node: int,
    size: int,
    rules: Rules,
    scratch: Scratch,
) -> int:
    """Write the children of a node from `size` on; their number, or -1 if the horizon is short.

    A child at the same cost with fewer conflicts is not kept: the node takes over its paths and
    is looked at again. With no conflict left, the node itself is the solution.
    """
    while choose_splits(lake, starts, goals, tree, node, rules, scratch, size):
        kept, bypassed = 0, False
        for child in (size, size + 1):
            slot = size + kept
            for part in range(tree.nodes.shape[1]):
                tree.nodes[slot, part] = tree.nodes[child, part]
            status = make_child(lake, starts, goals, tree, node, slot, rules, scratch)
            if status == -2:
                return -1
            if status == -1:
                continue
            if (
                tree.nodes[slot, COST] == tree.nodes[node, COST]
                and tree.nodes[slot, CONFLICTS] < tree.nodes[node, CONFLICTS]
            ):
                inherit(tree, slot, node)
                tree.nodes[node, CONFLICTS] = tree.nodes[slot, CONFLICTS]
                bypassed = True
                break
            kept += 1
        if not bypassed:
            return kept
        gather_all(lake, tree, node, goals, rules)
    return 0


@compiled
def search(
    lake: Lake,
    starts: Table,
    goals: Table,
    distance: Table,
    horizon: int,
    bound: int,
    limit: int,
) -> tuple[int, int, Paths, Table, int]:
    """Run CBS; returns (status, cost, paths, lengths, nodes expanded).

    `distance` is how far each agent is from its goal (-1: cut off), `bound` the largest cost of
    interest, `limit` the number of nodes to expand at most.
    """
    agents = starts.shape[0]
    tree = Tree(
        np.zeros((ROOM, 10), np.int64),
        np.zeros((ROOM, agents, horizon), np.int16),
        np.full((ROOM, agents), -1, np.int64),
        np.full((ROOM, agents, agents), -1, np.int64),
    )
    rules = make_rules(agents, lake.free.shape[0], horizon, 16)
    scratch = make_scratch(lake, distance, horizon)
    if scratch.distance.min() < 0:
        return EXCEEDED, 0, tree.paths[0], tree.lengths[0], 0
    heap = np.empty((ROOM, 2), np.int64)
    gather_all(lake, tree, 0, goals, rules)
    for a in range(agents):
        if replan(lake, a, starts, goals, tree.paths[0], tree.lengths[0], rules, scratch) < 0:
            return SHORT, 0, tree.paths[0], tree.lengths[0], 0
    tree.nodes[0, COST] = tree.lengths[0].sum()
    tree.nodes[0, CONFLICTS] = count_conflicts(tree.paths[0], tree.lengths[0])
    tree.nodes[0, PARENT] = -1
    push(heap, 0, key_of(tree.nodes[0], 0), 0)
    queued, size, expanded = 1, 1, 0
    refined = np.zeros(ROOM, np.bool_)
    while queued > 0:
        node = pop(heap, queued)
        queued -= 1
        row = tree.nodes[node]
        if row[COST] + row[BOUND] > bound:
            return EXCEEDED, 0, tree.paths[node], tree.lengths[node], expanded
        if row[CONFLICTS] == 0:
            return SOLVED, row[COST], tree.paths[node], tree.lengths[node], expanded
        if row[DEPTH] + 2 > rules.banned.shape[1]:
            rules = make_rules(agents, lake.free.shape[0], horizon, 2 * row[DEPTH] + 2)
        gather_all(lake, tree, node, goals, rules)
        if not refined[node]:
            refined[node] = True
            value = refine(lake, starts, goals, tree, node, rules, scratch)
            if value > row[BOUND]:
                row[BOUND] = value
                push(heap, queued, key_of(row, node), node)
                queued += 1
                continue
        if expanded >= limit:
            return GAVE_UP, row[COST] + row[BOUND], tree.paths[node], tree.lengths[node], expanded
        expanded += 1
        while size + 2 > tree.nodes.shape[0]:
            tree = grow(tree)
            refined = np.concatenate((refined, np.zeros(refined.shape[0], np.bool_)))
        while queued + 2 > heap.shape[0]:
            heap = np.concatenate((heap, np.empty_like(heap)))
        kept = expand(lake, starts, goals, tree, node, size, rules, scratch)
        if kept < 0:
            return SHORT, 0, tree.paths[node], tree.lengths[node], expanded
        if tree.nodes[node, CONFLICTS] == 0:
            push(heap, queued, key_of(tree.nodes[node], node), node)
            queued += 1
            continue
        for slot in range(size, size + kept):
            refined[slot] = False
            push(heap, queued, key_of(tree.nodes[slot], slot), slot)
            queued += 1
        size += kept
    return EXCEEDED, 0, tree.paths[0], tree.lengths[0], expanded
