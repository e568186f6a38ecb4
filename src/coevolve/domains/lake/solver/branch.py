"""Choosing where to split: bounds from pairs, conflicts worth settling, what a split costs."""

import numpy as np

from coevolve.domains.lake.compile import Table, compiled, kernel
from coevolve.domains.lake.solver.layers import Lake, backward, single
from coevolve.domains.lake.solver.pairs import cover, pair_excess
from coevolve.domains.lake.solver.replan import Scratch, conflict_of, shortest
from coevolve.domains.lake.solver.rules import (
    AGENT,
    AT,
    BY,
    FROM,
    LATER,
    MOVE,
    NOT_AT,
    NOT_MOVE,
    PARENT,
    SPLIT,
    TO,
    WHEN,
    Paths,
    Rules,
    Tree,
    breaks,
    impose,
    position,
)

TRIED = 8
"""Conflicts tried out at each node before one is chosen."""
RANK = 40
"""Bits of a conflict's value below its rank."""
DEARER = 1 << 20
"""What a move more on the cheaper side of a split is worth, in moves on the dearer side."""


@compiled
def refine(
    lake: Lake,
    starts: Table,
    goals: Table,
    tree: Tree,
    node: int,
    rules: Rules,
    scratch: Scratch,
) -> int:
    """Compute the weights of the node's conflicting pairs and its bound from them."""
    paths, lengths, weights = tree.paths[node], tree.lengths[node], tree.weights[node]
    for a in range(lengths.shape[0]):
        for b in range(a):
            if weights[a, b] >= 0:
                continue
            excess = 0
            for t in range(max(lengths[a], lengths[b]) + 1):
                if conflict_of(paths, lengths, a, b, t) > 0:
                    excess = pair_excess(
                        lake,
                        a,
                        b,
                        starts,
                        goals,
                        lengths,
                        rules.most,
                        rules.allowed,
                        rules.settled,
                        rules.banned[a, : rules.banned_counts[a]],
                        rules.banned[b, : rules.banned_counts[b]],
                        scratch.buffers,
                        scratch.pairs,
                    )
                    break
            weights[a, b] = excess
            weights[b, a] = excess
    return cover(weights)


@kernel
def candidates(
    lake: Lake,
    starts: Table,
    goals: Table,
    tree: Tree,
    node: int,
    rules: Rules,
    scratch: Scratch,
    out: Table,
) -> int:
    """The best conflict of each pair as rows (value, agent, other, kind, time); their number.

    Conflicts that raise the cost whichever way they are settled come first, then those that
    raise it one way, then the others; among equals the heavier pair, then the earlier time.
    """
    paths, lengths, weights = tree.paths[node], tree.lengths[node], tree.weights[node]
    agents = lengths.shape[0]
    ready = scratch.ready
    for agent in range(agents):
        ready[agent] = 0
    found = 0
    for a in range(agents):
        for b in range(a):
            best = -1
            for t in range(max(lengths[a], lengths[b]) + 1):
                kind = conflict_of(paths, lengths, a, b, t)
                if kind == 0:
                    continue
                for agent in (a, b):
                    if ready[agent] == 0:
                        ready[agent] = 1
                        shortest(lake, agent, agent, starts, goals, rules, scratch)
                        backward(
                            lake,
                            scratch.buffers[0],
                            goals[agent],
                            rules.banned[agent, : rules.banned_counts[agent]],
                            lengths[agent],
                            scratch.layers,
                            agent,
                        )
                forced_a = single(scratch.layers, a, lengths[a], t)
                forced_b = single(scratch.layers, b, lengths[b], t)
                if kind == 2:
                    forced_a = forced_a and single(scratch.layers, a, lengths[a], t + 1)
                    forced_b = forced_b and single(scratch.layers, b, lengths[b], t + 1)
                rank = int(forced_a) + int(forced_b)
                value = (rank << RANK) + (max(weights[a, b], 0) << 24) + ((1 << 20) - t)
                if value > best:
                    best = value
                    lead = forced_a or not forced_b
                    out[found, 0] = value
                    out[found, 1] = a if lead else b
                    out[found, 2] = b if lead else a
                    out[found, 3] = kind
                    out[found, 4] = t
            if best >= 0:
                found += 1
    return found


@kernel
def write_splits(paths: Paths, lengths: Table, conflict: Table, node: int, rows: Table) -> None:
    """The two children's splits that settle a conflict (value, agent, other, kind, time)."""
    a, b, kind, time = conflict[1], conflict[2], conflict[3], conflict[4]
    resting = -1
    if kind == 1 and time >= lengths[a]:
        resting = a
    elif kind == 1 and time >= lengths[b]:
        resting = b
    for side in range(2):
        row = rows[side]
        row[PARENT] = node
        row[WHEN] = time
        if resting >= 0:
            row[AGENT] = resting
            row[FROM] = row[TO] = paths[resting, lengths[resting]]
            row[SPLIT] = BY if side else LATER
            row[WHEN] = time if side else time + 1
        else:
            row[AGENT] = a
            row[FROM] = position(paths, lengths, a, time)
            row[TO] = position(paths, lengths, a, time + (1 if kind == 2 else 0))
            if kind == 2:
                row[SPLIT] = MOVE if side else NOT_MOVE
            else:
                row[SPLIT] = AT if side else NOT_AT


@kernel
def price(
    lake: Lake,
    starts: Table,
    goals: Table,
    paths: Paths,
    lengths: Table,
    row: Table,
    rules: Rules,
    scratch: Scratch,
) -> int:
    """How much a split would raise the cost of a node whose rules have been gathered."""
    spare = starts.shape[0]
    total = 0
    for agent in range(spare):
        if breaks(paths, lengths, agent, row):
            settled = rules.settled[agent]
            rules.settled[spare] = settled
            for t in range(settled + 1):
                for r in range(rules.allowed.shape[2]):
                    rules.allowed[spare, t, r] = rules.allowed[agent, t, r]
            rules.banned_counts[spare] = rules.banned_counts[agent]
            for k in range(rules.banned_counts[agent]):
                for part in range(3):
                    rules.banned[spare, k, part] = rules.banned[agent, k, part]
            rules.least[spare] = rules.least[agent]
            rules.most[spare] = rules.most[agent]
            impose(rules, lake.width, goals, spare, agent, row)
            length = shortest(lake, spare, agent, starts, goals, rules, scratch)
            total += length - lengths[agent] if length >= 0 else 1000
    return total


@compiled
def choose_splits(
    lake: Lake,
    starts: Table,
    goals: Table,
    tree: Tree,
    node: int,
    rules: Rules,
    scratch: Scratch,
    slot: int,
) -> bool:
    """Write the most promising two splits to the rows at `slot`; False if nothing conflicts.

    Of the most promising conflicts a few are tried out: the best is the one whose cheaper child
    costs most, then the one whose dearer child does.
    """
    paths, lengths = tree.paths[node], tree.lengths[node]
    agents = lengths.shape[0]
    conflicts = np.empty((agents * (agents - 1) // 2, 5), np.int64)
    found = candidates(lake, starts, goals, tree, node, rules, scratch, conflicts)
    if found == 0:
        return False
    order = np.argsort(-conflicts[:found, 0])
    choice = order[0]
    best = -1
    rows = tree.nodes[slot : slot + 2]
    for q in range(min(found, TRIED) if found > 1 else 0):
        if best >= DEARER and conflicts[order[q], 0] >> RANK < 2:
            break  # one that raises the cost both ways was found, and no more such are left
        write_splits(paths, lengths, conflicts[order[q]], node, rows)
        left = price(lake, starts, goals, paths, lengths, rows[0], rules, scratch)
        right = price(lake, starts, goals, paths, lengths, rows[1], rules, scratch)
        value = min(left, right) * DEARER + max(left, right)
        if value > best:
            best = value
            choice = order[q]
    write_splits(paths, lengths, conflicts[choice], node, rows)
    return True
