"""Facts about a board: its optimal plan and cost, and whether every optimal plan must wait.

`needs_wait` is exact. Without waiting, the length of every path has the parity of its agent's
distance, so an odd excess over the sum of distances forces a wait; an excess of zero never does;
in between, a search without waiting settles it.
"""

from typing import NamedTuple

import numpy as np

from coevolve.core.errors import DomainError
from coevolve.domains.lake.board import Board, Plan
from coevolve.domains.lake.canonical import arrays_of
from coevolve.domains.lake.compile import Table, Words, announce, compiled
from coevolve.domains.lake.solver.cbs import EXCEEDED, GAVE_UP, SHORT, SOLVED, search
from coevolve.domains.lake.solver.exhaustive import exhaustive_cost
from coevolve.domains.lake.solver.layers import Lake, distances
from coevolve.domains.lake.solver.rules import FAR, Paths

FIRST_LIMIT = 60
"""Nodes after which a board is first proved solvable, if that can be done, before going on."""
LIMIT = 100_000
"""Nodes a search expands at most; half as many each time that paths get twice as long."""
STATES = 20_000_000
"""Joint states up to which unsolvability is proved by exhaustion: 80 MB, seconds."""


class UnsolvableError(DomainError):
    """Proved: no plan brings all agents to their goals."""


class UndecidedError(DomainError):
    """The search gave up before it found a plan or proved that there is none."""


class Solution(NamedTuple):
    plan: Plan
    cost: int
    """Sum over agents of the time step of the last arrival."""
    distances: tuple[int, ...]
    """Each agent's distance from start to goal: what it would cost if nobody were in the way."""
    needs_wait: bool
    """No optimal plan avoids waiting before arrival."""
    expanded: int


@compiled
def each_distance(lake: Lake, starts: Table, goals: Table) -> Table:
    """Every agent's distance to its goal, -1 if it cannot be reached."""
    table = np.empty(lake.free.shape[0] * lake.width, np.int64)
    found = np.empty(starts.shape[0], np.int64)
    sets = np.empty((3, lake.free.shape[0]), np.uint64)
    for a in range(starts.shape[0]):
        distances(lake, goals[a], table, sets)
        found[a] = table[starts[a]]
    return found


@compiled
def search_long(
    lake: Lake, starts: Table, goals: Table, distance: Table, bound: int, limit: int
) -> tuple[int, int, Paths, Table, int]:
    """`search` with a horizon that grows as needed."""
    horizon = 2 * (lake.free.shape[0] + lake.width) + 2 * starts.shape[0]
    while True:
        result = search(lake, starts, goals, distance, horizon, bound, limit)
        if result[0] != SHORT:
            return result
        if limit < 2:
            return GAVE_UP, 0, result[2], result[3], result[4]
        horizon *= 2
        limit //= 2


@compiled
def waits(paths: Paths, lengths: Table) -> bool:
    """Whether an agent waits before its arrival."""
    for a in range(lengths.shape[0]):
        for t in range(lengths[a]):
            if paths[a, t] == paths[a, t + 1]:
                return True
    return False


@compiled
def certify(
    free: Words, width: int, starts: Table, goals: Table, detour: int, limit: int
) -> tuple[int, int, Paths, Table, int, Table, bool]:
    """(status, cost, paths, lengths, nodes expanded, distances, needs_wait) of a board.

    Plans that exceed the sum of distances by more than `detour` are not looked for.
    """
    lake = Lake(free, width, True)
    alone = each_distance(lake, starts, goals)
    distance = alone.sum()
    status, cost, paths, lengths, expanded = search_long(
        lake, starts, goals, alone, distance + detour, limit
    )
    needs_wait = False
    if status == SOLVED and waits(paths, lengths):
        needs_wait = True
        if (cost - distance) % 2 == 0:
            moving = search_long(Lake(free, width, False), starts, goals, alone, cost, limit)
            expanded += moving[4]
            if moving[0] == SOLVED:
                needs_wait = False
                paths, lengths = moving[2], moving[3]
            elif moving[0] == GAVE_UP:
                status = GAVE_UP
    return status, cost, paths, lengths, expanded, alone, needs_wait


def solve(board: Board, limit: int = LIMIT) -> Solution:
    """An optimal plan for a board, or an error that says whether there is none."""
    free, width, starts, goals = arrays_of(board)
    lake = Lake(free, width, True)
    announce("search")
    result = certify(free, width, starts, goals, FAR, min(limit, FIRST_LIMIT))
    if result[0] == GAVE_UP and limit > FIRST_LIMIT:
        if exhaustive_cost(lake, starts, goals, STATES) == -1:
            raise UnsolvableError(
                "no plan exists: every joint position that the agents can reach was tried"
            )
        result = certify(free, width, starts, goals, FAR, limit)
    status, cost, paths, lengths, expanded, distance, needs_wait = result
    alone = distance.tolist()
    if status == EXCEEDED:
        cut_off = ", ".join(str(agent) for agent, distance in enumerate(alone) if distance < 0)
        raise UnsolvableError(f"no plan exists: agent {cut_off} cannot reach its goal")
    if status == GAVE_UP:
        raise UndecidedError(
            f"no plan found within {expanded} search nodes; raise the limit (now {limit})"
        )
    plan = tuple(
        tuple((int(cell) // width, int(cell) % width) for cell in paths[a, : lengths[a] + 1])
        for a in range(board.agents)
    )
    return Solution(plan, int(cost), tuple(alone), bool(needs_wait), int(expanded))
