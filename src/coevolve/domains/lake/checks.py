"""The eight checks a plan must pass, in order; the first that fails is the failure class.

`check_plans` is compiled and works on whole batches: a table of who stands where, stamped with the
time step, finds conflicts in time linear in the plan. `check_plan` is the same for one plan of
Python values and says in words what went wrong, with agent and time step.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coevolve.domains.lake.board import Board, Plan
from coevolve.domains.lake.canonical import arrays_of
from coevolve.domains.lake.compile import Table, Words, compiled
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

START, STEP, BOUNDS, IN_HOLE, CONFLICT, GOAL = range(2, 8)
OFF = 1 << 14
"""Coordinates are cut to plus or minus this, far off any board."""


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
def check_plans(
    free: Words,
    width: int,
    starts: Table,
    goals: Table,
    rows: NDArray[np.int16],
    columns: NDArray[np.int16],
    lengths: NDArray[np.int32],
    failures: NDArray[np.int32],
    costs: NDArray[np.int64],
) -> None:
    """Check a batch of plans, each against its own board.

    Shapes: free (B, H), starts and goals (B, N), rows and columns (B, N, T), lengths (B, N): the
    number of positions of each path. failures (B, 8, 3) receives agent + 1, time and the other
    agent + 1 of each failed check (agent + 1 = 0: passed); costs (B) the sum of costs.
    """
    height = free.shape[1]
    agents = starts.shape[1]
    stamp = np.zeros(height * width, np.int64)
    holder = np.zeros(height * width, np.int64)
    here = np.zeros(agents, np.int64)
    before = np.zeros(agents, np.int64)
    tick = 0
    for plan in range(free.shape[0]):
        for check in range(failures.shape[1]):
            failures[plan, check, 0] = 0
        total = 0
        last = 0
        for a in range(agents):
            length = lengths[plan, a]
            last = max(last, length)
            goal_row, goal_column = goals[plan, a] // width, goals[plan, a] % width
            arrived = 0
            if (
                length == 0
                or rows[plan, a, 0] * width + columns[plan, a, 0] != starts[plan, a]
                or columns[plan, a, 0] >= width
                or columns[plan, a, 0] < 0
            ):
                fail(failures, plan, START, a, 0, -1)
            for t in range(length):
                r, c = rows[plan, a, t], columns[plan, a, t]
                if r != goal_row or c != goal_column:
                    arrived = t + 1
                if t > 0 and abs(r - rows[plan, a, t - 1]) + abs(c - columns[plan, a, t - 1]) > 1:
                    fail(failures, plan, STEP, a, t, -1)
                if r < 0 or r >= height or c < 0 or c >= width:
                    fail(failures, plan, BOUNDS, a, t, -1)
                elif (free[plan, r] >> np.uint64(c)) & ONE == ZERO:
                    fail(failures, plan, IN_HOLE, a, t, -1)
            if length == 0 or arrived == length:
                fail(failures, plan, GOAL, a, max(length - 1, 0), -1)
            total += arrived
        costs[plan] = total
        for t in range(last):
            tick += 1
            for a in range(agents):
                length = lengths[plan, a]
                if length == 0:
                    continue
                at = min(t, length - 1)
                r, c = rows[plan, a, at], columns[plan, a, at]
                before[a] = here[a]
                here[a] = -1
                if r < 0 or r >= height or c < 0 or c >= width:
                    continue
                cell = r * width + c
                here[a] = cell
                if stamp[cell] == tick:
                    fail(failures, plan, CONFLICT, holder[cell], t, a)
                stamp[cell] = tick
                holder[cell] = a
            if t == 0:
                continue
            for a in range(agents):
                if lengths[plan, a] == 0 or min(before[a], here[a]) < 0 or before[a] == here[a]:
                    continue
                if stamp[before[a]] == tick:
                    b = holder[before[a]]
                    if b > a and before[b] == here[a]:
                        fail(failures, plan, CONFLICT, a, t, b)


@compiled
def fail(
    failures: NDArray[np.int32], plan: int, check: int, agent: int, time: int, other: int
) -> None:
    """Note a failed check, keeping the earliest time step seen."""
    if failures[plan, check, 0] == 0 or time < failures[plan, check, 1]:
        failures[plan, check, 0] = agent + 1
        failures[plan, check, 1] = time
        failures[plan, check, 2] = other + 1


def check_plan(board: Board, plan: Plan) -> tuple[list[Violation], int]:
    """All failed checks of one plan, in order, and its sum of costs (0 for the wrong agents)."""
    if len(plan) != board.agents:
        return [Violation("agents")], 0
    free, width, starts, goals = arrays_of(board)
    longest = max(1, max(len(path) for path in plan))
    rows = np.zeros((1, len(plan), longest), np.int16)
    columns = np.zeros((1, len(plan), longest), np.int16)
    for a, path in enumerate(plan):
        for t, (row, column) in enumerate(path):
            rows[0, a, t] = min(max(row, -OFF), OFF)
            columns[0, a, t] = min(max(column, -OFF), OFF)
    lengths = np.array([[len(path) for path in plan]], np.int32)
    failures = np.zeros((1, len(CHECKS), 3), np.int32)
    costs = np.zeros(1, np.int64)
    check_plans(
        free[None], width, starts[None], goals[None], rows, columns, lengths, failures, costs
    )
    found = [
        Violation(name, int(agent) - 1, int(time), int(other) - 1 if other else None)
        for name, (agent, time, other) in zip(CHECKS, failures[0], strict=True)
        if agent
    ]
    return found, int(costs[0])
