"""Many lakes stepped at once: boards of one size, one action per agent, all agents move together.

A step fails if an agent leaves the board, enters a hole, or two agents share or swap cells; an
agent may follow another into the cell that it leaves. The invariant: `grid` always shows each
board's holes and `positions`, and a failed step moves no one, so it shows the state before it.

Conflicts are found by the grid itself: who stands in my target tells of swaps, and writing all
targets tells of two in one cell. That is linear in the number of agents.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coevolve.core.errors import UserError
from coevolve.domains.lake.board import HOLE, Board
from coevolve.domains.lake.checks import BOUNDS, CONFLICT, IN_HOLE
from coevolve.domains.lake.compile import kernel

ACTIONS = ("up", "down", "left", "right", "wait")
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1), (0, 0))
"""Row and column steps of the actions."""
WATER, FIRST = 1, 2
"""Marks of the grid: 0 free, `WATER` a hole, `FIRST` + i agent i."""
MOST_AGENTS = 128 - FIRST
"""The grid has one signed byte per cell."""
NO_LIMIT = 2**31 - 1

Flags = NDArray[np.bool_]
Marks = NDArray[np.int8]
Cells = NDArray[np.uint32]
"""Unsigned, for then an index need not be tested for being negative."""


class Batch(NamedTuple):
    """The arrays of B boards with N agents each, as the kernels take them."""

    neighbours: Cells
    """(5, H * W): the cell that an action leads to, H * W where that is off the board."""
    starts: Cells
    goals: Cells
    positions: Cells
    """(B, N), like `starts` and `goals`."""
    targets: Cells
    """(N,): room for where the agents of one board are heading."""
    grid: Marks
    time: NDArray[np.int32]
    reward: NDArray[np.float32]
    done: Flags
    failure: Marks


@kernel
def put_back(grid: Marks, positions: Cells, starts: Cells) -> None:
    """Put the agents of one board on their starts."""
    agents = positions.shape[0]
    for a in range(agents):
        grid[positions[a]] = 0
    for a in range(agents):
        positions[a] = starts[a]
        grid[starts[a]] = FIRST + a


@kernel
def reset(batch: Batch, which: Flags) -> None:
    """Begin anew on the boards that `which` marks."""
    for b in range(which.shape[0]):
        if which[b]:
            put_back(batch.grid[b], batch.positions[b], batch.starts[b])
            batch.time[b] = 0
            batch.reward[b] = 0
            batch.done[b] = False
            batch.failure[b] = 0


@kernel
def move(grid: Marks, positions: Cells, targets: Cells) -> bool:
    """Move the agents of one board to their targets, or none of them where two conflict."""
    agents = positions.shape[0]
    conflict = False
    for a in range(agents):
        mark = grid[targets[a]]
        other = np.uint32(mark - FIRST if mark >= FIRST else a)
        conflict |= (other != a) & (targets[other] == positions[a])
    for a in range(agents):
        grid[positions[a]] = 0
    for a in range(agents):
        conflict |= grid[targets[a]] != 0
        grid[targets[a]] = FIRST + a
    if conflict:
        for a in range(agents):
            grid[targets[a]] = 0
        for a in range(agents):
            grid[positions[a]] = FIRST + a
    else:
        for a in range(agents):
            positions[a] = targets[a]
    return not conflict


@kernel
def known(actions: NDArray[np.uint8]) -> bool:
    """Whether all actions are in range."""
    strange = False
    for b in range(actions.shape[0]):
        for a in range(actions.shape[1]):
            strange |= actions[b, a] >= len(ACTIONS)
    return not strange


@kernel
def advance(batch: Batch, actions: NDArray[np.uint8], limit: int, again: bool) -> bool:
    """One step of every board, or of none and False if an action is out of range.

    A board that is done begins anew first if `again`, else it stays.
    """
    if not known(actions):
        return False
    targets = batch.targets
    off_board = np.uint32(batch.grid.shape[1])
    for b in range(actions.shape[0]):
        grid, positions, goals, action = (
            batch.grid[b],
            batch.positions[b],
            batch.goals[b],
            actions[b],
        )
        time = batch.time[b] + 1
        if batch.done[b]:
            if not again:
                batch.reward[b] = 0
                continue
            put_back(grid, positions, batch.starts[b])
            time = 1
        off, wet, home = False, False, True
        for a in range(targets.shape[0]):
            target = batch.neighbours[action[a], positions[a]]
            targets[a] = target
            off |= target == off_board
            wet |= grid[min(target, np.uint32(off_board - 1))] == WATER
            home &= target == goals[a]
        failure = BOUNDS if off else (IN_HOLE if wet else 0)
        if failure == 0 and not move(grid, positions, targets):
            failure = CONFLICT
        batch.time[b] = time
        batch.failure[b] = failure
        batch.reward[b] = home and failure == 0
        batch.done[b] = home or failure != 0 or time >= limit
    return True


def neighbours_of(height: int, width: int) -> Cells:
    """The cell that each action leads to from each cell, height * width if off the board."""
    rows, columns = np.divmod(np.arange(height * width), width)
    table = np.full((len(MOVES), height * width), height * width, np.uint32)
    for action, (down, right) in enumerate(MOVES):
        row, column = rows + down, columns + right
        on = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        table[action, on] = (row * width + column)[on]
    return table


def check_alike(boards: Sequence[Board]) -> None:
    """Refuse boards that cannot share one set of arrays."""
    if not boards:
        raise UserError("no boards were given; at least one is needed")
    kinds = [(board.height, board.width, board.agents) for board in boards]
    for number, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise UserError(
                f"board {number} is {kind[0]}x{kind[1]} with {kind[2]} agents, board 0 is "
                f"{kinds[0][0]}x{kinds[0][1]} with {kinds[0][2]}; step unlike boards apart"
            )
    if kinds[0][2] > MOST_AGENTS:
        raise UserError(f"{kinds[0][2]} agents on a board; the stepper takes up to {MOST_AGENTS}")


class Lakes:
    """B boards of one size and number of agents, played at the same time.

    `grid` (B, H * W) int8 is the observation: 0 free, 1 a hole, 2 + i agent i. `positions` (B, N)
    holds cells, row * width + column; `time` (B,) the steps of the episode, a failed one included.
    Success is judged after a step, so a board whose agents begin at their goals needs one.
    Read these arrays, do not write to them; they are the same ones for the life of the object.
    """

    def __init__(
        self, boards: Sequence[Board], time_limit: int | None = None, auto_reset: bool = True
    ) -> None:
        check_alike(boards)
        if time_limit is not None and not 1 <= time_limit <= NO_LIMIT:
            raise UserError(f"a time limit of {time_limit} steps; give 1 or more, or None")
        first, count = boards[0], len(boards)
        self.height, self.width, self.agents = first.height, first.width, first.agents
        self.auto_reset = auto_reset
        self.limit = NO_LIMIT if time_limit is None else time_limit
        holes = np.array([[mark == HOLE for row in b.rows for mark in row] for b in boards])
        starts = np.array([[r * first.width + c for r, c in b.starts] for b in boards], np.uint32)
        goals = np.array([[r * first.width + c for r, c in b.goals] for b in boards], np.uint32)
        self.batch = Batch(
            neighbours=neighbours_of(first.height, first.width),
            starts=starts,
            goals=goals,
            positions=starts.copy(),
            targets=np.zeros(first.agents, np.uint32),
            grid=np.where(holes, WATER, 0).astype(np.int8),
            time=np.zeros(count, np.int32),
            reward=np.zeros(count, np.float32),
            done=np.zeros(count, np.bool_),
            failure=np.zeros(count, np.int8),
        )
        self.positions = self.batch.positions.view(np.int32)
        self.grid, self.time = self.batch.grid, self.batch.time
        self.reward, self.done = self.batch.reward, self.batch.done
        self.failure = self.batch.failure
        self.reset()

    def reset(self, which: Flags | None = None) -> Marks:
        """Put all boards, or those where `which` is true, back to their starts; the grid."""
        shape = self.done.shape
        flags = np.ones(shape, np.bool_) if which is None else np.asarray(which)
        if flags.shape != shape or flags.dtype != np.bool_:
            raise UserError(
                f"boards to reset: {flags.dtype} of shape {flags.shape}; give bool of {shape}"
            )
        reset(self.batch, np.ascontiguousarray(flags))
        return self.grid

    def step(self, actions: ArrayLike) -> tuple[Marks, NDArray[np.float32], Flags, Marks]:
        """Move all agents of all boards: grid, reward (1 solved, else 0), done and failure.

        `actions` (B, N) are indices of `ACTIONS`; int8 is taken as it is, without a copy. `failure`
        is 0 or the index in `checks.CHECKS` of the first check that the step failed. The results
        are overwritten by the next step: copy what is to be kept.

        A board that was done is first put back to its start, so its action should be one for the
        start: a policy that looks at the grid calls `reset(done)` before it chooses. Without
        `auto_reset` such a board stays as it is, with reward 0.
        """
        given = np.asarray(actions)
        if not advance(self.batch, self.as_bytes(given), self.limit, self.auto_reset):
            raise UserError(
                f"actions range from {given.min()} to {given.max()}; "
                f"give 0 to {len(ACTIONS) - 1}: {', '.join(ACTIONS)}"
            )
        return self.grid, self.reward, self.done, self.failure

    def as_bytes(self, actions: NDArray[Any]) -> NDArray[np.uint8]:
        """The actions as the kernel takes them; one that is out of range stays out of range."""
        if actions.shape != self.positions.shape or actions.dtype.kind not in "iu":
            raise UserError(
                f"actions: {actions.dtype} of shape {actions.shape}; give int8 of shape "
                f"{self.positions.shape}, one per board and agent"
            )
        if actions.itemsize > 1:
            fits = (actions >= 0) & (actions < len(ACTIONS))
            actions = np.where(fits, actions, len(ACTIONS)).astype(np.int8)
        return np.ascontiguousarray(actions).view(np.uint8)

    @property
    def truncated(self) -> Flags:
        """The boards that are done by the time limit alone, neither solved nor failed (a copy)."""
        flags: Flags = self.done & (self.failure == 0) & (self.reward == 0)
        return flags
