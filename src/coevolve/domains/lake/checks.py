"""The eight checks a plan must pass, in order; the first that fails is the failure class.

`check_plans` is compiled and works on whole batches: most plans of a batch are passed at a glance,
and what went wrong with the others, with agent and time step, is found out by a closer look.
`check_plan` is the same for one plan of Python values.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coevolve.domains.lake.arrays import (
    Boards,
    Coordinates,
    Plans,
    boards_of,
    make_plans,
    write_plan,
)
from coevolve.domains.lake.board import Board, Plan
from coevolve.domains.lake.compile import Table, compiled, kernel
from coevolve.domains.lake.solver.layers import ONE, ZERO

CHECKS = (
    "parse",
    "agents",
    "start",
    "step",
    "bounds",
    "hole",
    "conflict",
    "goal",
)
"""It parses; names every agent; begins at the starts; moves one cell at a time; stays on the board;
off the holes; two agents never share or swap cells; and every goal is reached."""

MEANING = {
    "parse": "no single well-formed answer was found",
    "agents": "the number of paths is not the number of agents",
    "start": "a path does not begin at its agent's start",
    "step": "a step moves further than one cell up, down, left or right",
    "bounds": "a path leaves the board",
    "hole": "a path enters a hole",
    "conflict": "two agents are in one cell at one time, or swap cells",
    "goal": "a path does not end at its agent's goal",
}

PARSE, AGENTS, START, STEP, BOUNDS, IN_HOLE, CONFLICT, GOAL = range(8)
WHOLE = ("parse", "agents")
"""Checks that fail for no one agent."""

Found = NDArray[np.int32]
"""(plans, 8, 3): agent + 1, time and the other agent + 1 of each failed check; 0 for one passed."""


class Violation(NamedTuple):
    """One failed check: which, whose path, when, and the other agent of a conflict."""

    check: str
    agent: int | None = None
    time: int | None = None
    other: int | None = None
    reason: str = ""
    """Why nothing could be parsed."""

    def describe(self) -> str:
        if self.reason:
            return f"{MEANING[self.check]}: {self.reason}"
        where = "" if self.agent is None else f" (agent {self.agent}"
        if where and self.other is not None:
            where += f" and agent {self.other}"
        if where:
            where += "" if self.time is None else f", time step {self.time}"
            where += ")"
        return MEANING[self.check] + where


@compiled
def check_plans(boards: Boards, plans: Plans, failures: Found, costs: NDArray[np.int64]) -> None:
    """Check plans, each against its own board.

    failures (plans, 8, 3) receives agent + 1, time and the other agent + 1 of each failed check
    (agent + 1 = 0: passed); costs (plans) the sum of costs.
    """
    most, longest = boards.starts.shape[1], 0
    for plan in range(plans.board.shape[0]):
        for a in range(plans.paths[plan]):
            longest = max(longest, plans.lengths[plans.begin[plan] + a])
    cells = np.empty((most, longest + 1), np.int16)
    stamp = np.zeros(boards.free.shape[1] * 64, np.int64)
    holder = np.empty(boards.free.shape[1] * 64, np.int64)
    moves = np.empty((2, most), np.int64)
    tick = 0
    for plan in range(plans.board.shape[0]):
        for check in range(failures.shape[1]):
            failures[plan, check, 0] = 0
        costs[plan] = 0
        if plans.paths[plan] != boards.sizes[plans.board[plan], 2]:
            failures[plan, PARSE if plans.paths[plan] < 0 else AGENTS, 0] = 1
            continue
        costs[plan] = cost_of(boards, plans, plan, cells)
        if costs[plan] < 0:
            costs[plan] = explain_paths(boards, plans, plan, failures)
            tick = explain_conflicts(boards, plans, plan, failures, stamp, holder, moves, tick)


@kernel
def cost_of(boards: Boards, plans: Plans, plan: int, cells: Coordinates) -> int:
    """The sum of costs of a valid plan, -1 of any other.

    Loops are over whole paths, in 16 bits and without branches: they become vector instructions.
    """
    board, at = plans.board[plan], plans.begin[plan]
    height, width, agents = boards.sizes[board]
    lengths = plans.lengths[at : at + agents]
    high, wide = np.int16(height), np.int16(width)
    last = 0
    for a in range(agents):
        last = max(last, lengths[a])
    total = 0
    for a in range(agents):
        length = lengths[a]
        if length == 0:
            return -1
        rows, columns = plans.rows[at : at + length], plans.columns[at : at + length]
        bad: bool | np.bool_ = False
        for t in range(length):
            bad |= (rows[t] < 0) | (rows[t] >= high) | (columns[t] < 0) | (columns[t] >= wide)
        if bad:
            return -1
        next_rows, next_columns = rows[1:], columns[1:]
        for t in range(length - 1):
            down, right = np.int16(next_rows[t] - rows[t]), np.int16(next_columns[t] - columns[t])
            bad |= np.int16(down * down + right * right) > 1
        mine, solid = cells[a], ONE
        for t in range(length):
            mine[t] = rows[t] * wide + columns[t]
        for t in range(length):
            solid &= boards.free[board, np.uint64(rows[t])] >> np.uint64(columns[t])
        goal, arrived = boards.goals[board, a], length
        while arrived > 0 and mine[arrived - 1] == goal:
            arrived -= 1
        if bad or solid == ZERO or arrived == length or mine[0] != boards.starts[board, a]:
            return -1
        for t in range(length, last + 1):
            mine[t] = goal
        total += arrived
        at += length
    for a in range(agents):
        mine = cells[a]
        my_next = mine[1:]
        for b in range(a):
            other, met = cells[b], False
            other_next = other[1:]
            for t in range(last):
                met |= mine[t] == other[t]
                met |= (mine[t] == other_next[t]) & (my_next[t] == other[t])
            if met:
                return -1
    return total


@kernel
def explain_paths(boards: Boards, plans: Plans, plan: int, failures: Found) -> int:
    """Note what is wrong with each path by itself; returns the sum of costs."""
    board, at = plans.board[plan], plans.begin[plan]
    height, width, agents = boards.sizes[board]
    lengths = plans.lengths[at : at + agents]
    total = 0
    for a in range(agents):
        length = lengths[a]
        rows, columns = plans.rows[at : at + length], plans.columns[at : at + length]
        goal, arrived = boards.goals[board, a], 0
        if (
            length == 0
            or rows[0] * width + columns[0] != boards.starts[board, a]
            or columns[0] >= width
            or columns[0] < 0
        ):
            fail(failures, plan, START, a, 0, -1)
        for t in range(length):
            r, c = rows[t], columns[t]
            if r != goal // width or c != goal % width:
                arrived = t + 1
            if t > 0 and abs(r - rows[t - 1]) + abs(c - columns[t - 1]) > 1:
                fail(failures, plan, STEP, a, t, -1)
            if r < 0 or r >= height or c < 0 or c >= width:
                fail(failures, plan, BOUNDS, a, t, -1)
            elif (boards.free[board, r] >> np.uint64(c)) & ONE == ZERO:
                fail(failures, plan, IN_HOLE, a, t, -1)
        if arrived == length:
            fail(failures, plan, GOAL, a, max(length - 1, 0), -1)
        total += arrived
        at += length
    return total


@kernel
def explain_conflicts(
    boards: Boards,
    plans: Plans,
    plan: int,
    failures: Found,
    stamp: Table,
    holder: Table,
    moves: Table,
    tick: int,
) -> int:
    """Note the first conflict: a table of who stands where is stamped with every time step.

    Returns the last stamp that was used.
    """
    board = plans.board[plan]
    height, width, agents = boards.sizes[board]
    before, here = moves[0], moves[1]
    lengths = plans.lengths[plans.begin[plan] : plans.begin[plan] + agents]
    last = 0
    for a in range(agents):
        last = max(last, lengths[a])
    for t in range(last):
        tick += 1
        at = plans.begin[plan]
        for a in range(agents):
            length = lengths[a]
            before[a], here[a] = here[a], -1
            if length > 0:
                r, c = plans.rows[at + min(t, length - 1)], plans.columns[at + min(t, length - 1)]
                if 0 <= r < height and 0 <= c < width:
                    cell = r * width + c
                    here[a] = cell
                    if stamp[cell] == tick:
                        fail(failures, plan, CONFLICT, holder[cell], t, a)
                    stamp[cell] = tick
                    holder[cell] = a
            at += length
        for a in range(agents if t > 0 else 0):
            if min(before[a], here[a]) < 0 or before[a] == here[a]:
                continue
            if stamp[before[a]] == tick:
                b = holder[before[a]]
                if b > a and before[b] == here[a]:
                    fail(failures, plan, CONFLICT, a, t, b)
    return tick


@kernel
def fail(failures: Found, plan: int, check: int, agent: int, time: int, other: int) -> None:
    """Note a failed check, keeping the earliest time step seen."""
    if failures[plan, check, 0] == 0 or time < failures[plan, check, 1]:
        failures[plan, check, 0] = agent + 1
        failures[plan, check, 1] = time
        failures[plan, check, 2] = other + 1


def check_plan(board: Board, plan: Plan) -> tuple[list[Violation], int]:
    """All failed checks of one plan, in order, and its sum of costs (0 for the wrong agents)."""
    plans = make_plans([0], [max(1, len(plan), sum(map(len, plan)))])
    write_plan(plan, plans, 0)
    failures, costs = check_all(boards_of([board]), plans)
    return violations(failures[0].tolist()), int(costs[0])


def check_all(boards: Boards, plans: Plans) -> tuple[Found, Table]:
    """Failures and costs of plans, each checked against its own board."""
    failures = np.zeros((len(plans.board), len(CHECKS), 3), np.int32)
    costs = np.zeros(len(plans.board), np.int64)
    check_plans(boards, plans, failures, costs)
    return failures, costs


def violations(failed: list[list[int]], reason: str = "") -> list[Violation]:
    """What went wrong with a plan, in order, and why there was none to read."""
    found = []
    for name, (agent, time, other) in zip(CHECKS, failed, strict=True):
        if agent and name in WHOLE:
            found.append(Violation(name, reason=reason))
        elif agent:
            found.append(Violation(name, agent - 1, time, other - 1 if other else None))
    return found
