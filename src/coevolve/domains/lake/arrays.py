"""Many boards, and many plans for them, as the arrays that compiled functions take."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coevolve.domains.lake.board import Board, Plan
from coevolve.domains.lake.canonical import arrays_of
from coevolve.domains.lake.compile import Table, Words

Coordinates = NDArray[np.int16]

OFF = 1 << 14
"""Coordinates are cut to plus or minus this, far off any board."""


class Boards(NamedTuple):
    """Boards side by side; what lies behind a board's own rows and agents is not looked at."""

    free: Words
    """(boards, rows): the free cells of each row."""
    sizes: Table
    """(boards, 3): height, width and number of agents."""
    starts: Table
    """(boards, agents): numbers of cells, like `goals`."""
    goals: Table


class Plans(NamedTuple):
    """Plans after one another, each as the cells of its first path, of its second, and so on."""

    board: Table
    """The board of each plan."""
    paths: Table
    """How many paths each has; below 0 for one that could not be read."""
    begin: Table
    """Where each begins in the three arrays below."""
    lengths: Table
    """The number of cells of each of its paths."""
    rows: Coordinates
    columns: Coordinates


def boards_of(boards: Sequence[Board]) -> Boards:
    height, agents = max(one.height for one in boards), max(one.agents for one in boards)
    made = Boards(
        np.zeros((len(boards), height), np.uint64),
        np.array([(one.height, one.width, one.agents) for one in boards], np.int64),
        np.zeros((len(boards), agents), np.int64),
        np.zeros((len(boards), agents), np.int64),
    )
    for place, board in enumerate(boards):
        free, _, starts, goals = arrays_of(board)
        made.free[place, : board.height] = free
        made.starts[place, : board.agents] = starts
        made.goals[place, : board.agents] = goals
    return made


def make_plans(board: Sequence[int], room: Sequence[int]) -> Plans:
    """Plans that are yet to be written, with room for so many cells, and as many paths, each."""
    ends = np.cumsum(np.array(room, np.int64))
    size = int(ends[-1])
    return Plans(
        np.array(board, np.int64),
        np.full(len(room), -1, np.int64),
        np.concatenate((np.zeros(1, np.int64), ends[:-1])),
        np.empty(size, np.int64),
        np.empty(size, np.int16),
        np.empty(size, np.int16),
    )


def write_plan(plan: Plan, plans: Plans, place: int) -> None:
    """Put a plan where there is room for it."""
    begin = at = int(plans.begin[place])
    plans.paths[place] = len(plan)
    plans.lengths[begin : begin + len(plan)] = [len(path) for path in plan]
    for path in plan:
        for row, column in path:
            plans.rows[at] = min(max(row, -OFF), OFF)
            plans.columns[at] = min(max(column, -OFF), OFF)
            at += 1
