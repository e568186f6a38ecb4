"""Valid plans of a given length: random walks without conflicts on certified boards.

The invariant: every plan keeps all rules by how it is made, without the code that is measured. No
agent stands in a hole, all are at their goals together at the last step only.
"""

import random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coevolve.core.splits import Split
from coevolve.domains.knobs import Knobs
from coevolve.domains.lake.board import HOLE, Board, Plan
from coevolve.domains.lake.generate import generate
from coevolve.domains.lake.knobs import SPACE
from coevolve.domains.lake.stepper import MOVES

SIDE, AGENTS, HOLES = 8, 4, 0.2
"""What the peers were set to as well (jumanji's Connector and gymnasium have no such holes)."""
STEPS = 32

Joint = tuple[int, ...]


def make_knobs(wait_ratio: float) -> Knobs:
    """Knobs for nothing but 8x8 boards with 4 agents."""
    return SPACE.parse(
        {
            f"size{SIDE}.data_ratio": 1.0,
            f"size{SIDE}.hole_ratio": HOLES,
            f"size{SIDE}.wait_ratio": wait_ratio,
            f"agents{AGENTS}.share": 1.0,
        }
    )


def board_of(data: dict[str, Any]) -> Board:
    return Board(rows=data["rows"], starts=data["starts"], goals=data["goals"])


def certified_boards(count: int, seed: int = 0) -> list[Board]:
    """Boards of generated tasks."""
    return [board_of(task.data) for task in generate(make_knobs(0.5), count, seed, Split.TRAIN)]


def choices(board: Board) -> dict[int, list[int]]:
    """From each free cell, the cells that an agent may be in one step later."""
    side = board.width
    free = {
        row * side + column
        for row, marks in enumerate(board.rows)
        for column, mark in enumerate(marks)
        if mark != HOLE
    }
    table = {}
    for cell in free:
        row, column = divmod(cell, side)
        ends = [(row + down, column + right) for down, right in MOVES]
        table[cell] = [r * side + c for r, c in ends if 0 <= c < side and r * side + c in free]
    return table


def walk(board: Board, rng: random.Random) -> list[Joint]:
    """The cells of all agents at every time step of a random walk without conflicts."""
    reach = choices(board)
    while True:
        here: Joint = tuple(row * board.width + column for row, column in board.starts)
        joints = [here]
        while len(joints) <= STEPS:
            there = tuple(rng.choice(reach[cell]) for cell in here)
            moves = set(zip(here, there, strict=True))
            swapped = any(old != new and (new, old) in moves for old, new in moves)
            if len(set(there)) == len(there) and not swapped:
                joints.append(there)
                here = there
        if here not in joints[:-1]:
            return joints


def make_plans(count: int, seed: int = 0) -> list[tuple[Board, Plan]]:
    """Distinct valid plans, each with its board, whose goals are where the plan ends."""
    rng = random.Random(f"plans {seed}")
    made = []
    for board in certified_boards(count, seed):
        cells = [[divmod(cell, board.width) for cell in joint] for joint in walk(board, rng)]
        goals = tuple(cells[-1])
        plan: Plan = tuple(zip(*cells, strict=True))
        made.append((Board(rows=board.rows, starts=board.starts, goals=goals), plan))
    if len({(board.rows, plan) for board, plan in made}) != count:
        raise SystemExit("two plans are the same; they have to be distinct")
    return made


def actions_of(plans: list[Plan]) -> NDArray[np.int8]:
    """The joint actions (time step, plan, agent) that play the plans."""
    cells = np.array(plans)
    steps = np.diff(cells, axis=2).transpose(2, 0, 1, 3)
    matches = (steps[..., None, :] == np.array(MOVES)).all(axis=-1)
    actions: NDArray[np.int8] = matches.argmax(axis=-1).astype(np.int8)
    return actions
