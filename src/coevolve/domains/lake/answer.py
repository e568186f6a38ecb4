"""Reading a plan out of an answer: generous about what surrounds it, strict about what it is.

An answer stands in one `<answer>` block after any reasoning, or is the whole text. Two blocks, a
broken block or anything beside the plan inside it is no answer at all: nobody guesses.

A plan is written as coordinates `[[[0,0],[0,1]],[[2,2],[2,1]]]`, as moves `["R","L"]`, in the
compact form `R|L` (`-` for an agent that does not move), or as the cells of all agents at each time
step after the start, `0,1 2,1 / 0,2 2,0` (`-` if nobody moves).
"""

import json
import re
from itertools import pairwise

from coevolve.domains.lake.board import Board, Cell, Plan

OPEN, CLOSE = "<answer>", "</answer>"
STEPS = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1), "W": (0, 0)}
LETTERS = {step: letter for letter, step in STEPS.items()}

PLAIN = re.compile(r'[\[\]0-9, \t\r\n"UDLRW-]*')
MOVES = re.compile(r"[UDLRW]*")
COMPACT = re.compile(r"(?:-|[UDLRW]+)(?:\|(?:-|[UDLRW]+))*")
CELLS = re.compile(r"-|[0-9]{1,3},[0-9]{1,3}(?: (?:/ )?[0-9]{1,3},[0-9]{1,3})*")


class AnswerError(ValueError):
    """Why a text holds no plan."""


def longest(board: Board) -> int:
    """Characters a plan may take: twice what it takes to visit every cell with every agent."""
    return 20_000 + 20 * board.height * board.width * board.agents


def extract(text: str, board: Board) -> str:
    """The part of a text that claims to be the plan."""
    opened, closed = text.count(OPEN), text.count(CLOSE)
    if opened == closed == 0:
        content = text
    elif opened == closed == 1:
        begin, end = text.index(OPEN) + len(OPEN), text.index(CLOSE)
        if end < begin:
            raise AnswerError(f"{CLOSE} comes before {OPEN}")
        content = text[begin:end]
    else:
        raise AnswerError(f"{opened} {OPEN} and {closed} {CLOSE} instead of one of each")
    if len(content) > longest(board):
        raise AnswerError(f"{len(content)} characters; a plan takes {longest(board)} at most")
    return content.strip()


def parse(text: str, board: Board) -> Plan:
    """The plan in a text; raises AnswerError if there is not exactly one."""
    content = extract(text, board)
    if not content:
        raise AnswerError("empty")
    if content == "-":  # nobody moves
        return tuple((start,) for start in board.starts)
    if COMPACT.fullmatch(content):
        return walk_all([part.replace("-", "") for part in content.split("|")], board)
    if CELLS.fullmatch(content):
        return read_steps(content, board)
    if not PLAIN.fullmatch(content):
        raise AnswerError("something beside the plan")
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise AnswerError("not a list of paths") from None
    if not isinstance(value, list) or not value:
        raise AnswerError("not a list of paths")
    if all(isinstance(path, str) for path in value):
        if not all(MOVES.fullmatch(path) for path in value):
            raise AnswerError("moves other than U, D, L, R and W")
        return walk_all(value, board)
    return tuple(read_path(path) for path in value)


def read_steps(content: str, board: Board) -> Plan:
    """Paths from the cells of all agents at each time step after the start."""
    steps = [
        [(int(row), int(column)) for row, _, column in (c.partition(",") for c in step.split())]
        for step in content.split(" / ")
    ]
    if any(len(step) != len(steps[0]) for step in steps):
        raise AnswerError("time steps with different numbers of agents")
    starts = [*board.starts, *((-1, -1) for _ in steps[0][board.agents :])]
    return tuple(
        (start, *path) for start, path in zip(starts, zip(*steps, strict=True), strict=False)
    )


def read_path(path: object) -> tuple[Cell, ...]:
    """A path given as a list of [row, column]."""
    if not isinstance(path, list):
        raise AnswerError("a path that is not a list")
    cells = []
    for cell in path:
        if not isinstance(cell, list) or len(cell) != 2:
            raise AnswerError("a position that is not [row, column]")
        row, column = cell
        if not isinstance(row, int) or not isinstance(column, int):
            raise AnswerError("a coordinate that is not a whole number")
        cells.append((row, column))
    return tuple(cells)


def walk_all(moves: list[str], board: Board) -> Plan:
    """Paths from moves; agents beyond the board's begin nowhere, which the checks will say."""
    starts = [*board.starts, *((-1, -1) for _ in moves[board.agents :])]
    return tuple(walk(start, word) for start, word in zip(starts, moves, strict=False))


def walk(start: Cell, moves: str) -> tuple[Cell, ...]:
    """The cells visited from `start` by a string of moves."""
    cells = [start]
    row, column = start
    for letter in moves:
        step = STEPS[letter]
        row, column = row + step[0], column + step[1]
        cells.append((row, column))
    return tuple(cells)


def words(plan: Plan) -> list[str]:
    """Each path as a string of moves."""
    return [
        "".join(
            LETTERS[after[0] - before[0], after[1] - before[1]] for before, after in pairwise(path)
        )
        for path in plan
    ]


def write(plan: Plan, form: str) -> str:
    """A plan as text: 'paths', 'moves', 'compact' or 'cells'."""
    if form == "paths":
        return json.dumps(plan, separators=(",", ":"))
    if form == "moves":
        return json.dumps(words(plan), separators=(",", ":"))
    if form == "compact":
        return "|".join(word or "-" for word in words(plan))
    last = max(len(path) for path in plan)
    steps = (
        " ".join("{},{}".format(*path[min(t, len(path) - 1)]) for path in plan)
        for t in range(1, last)
    )
    return " / ".join(steps) or "-"
