"""Reading a plan out of an answer: generous about what surrounds it, strict about what it is.

An answer stands in one `<answer>` block after any reasoning, or is the whole text; what stands in
`<think>` is no part of it. Two blocks, a broken block or anything beside the plan inside it is no
answer at all: nobody guesses.

A plan is written as coordinates `[[[0,0],[0,1]],[[2,2],[2,1]]]`, as moves `["R","L"]`, in the
compact form `R|L` (`-` for an agent that does not move), or as the cells of all agents at each time
step after the start, `0,1 2,1 / 0,2 2,0` (`-` if nobody moves).
"""

import json
import re
from collections.abc import Sequence
from itertools import islice, pairwise

import numpy as np

from coevolve.core.thought import spoken
from coevolve.domains.lake.arrays import Boards, Plans, boards_of, make_plans, write_plan
from coevolve.domains.lake.board import Board, Cell, Plan
from coevolve.domains.lake.read import UNEVEN, read_plans

OPEN, CLOSE = "<answer>", "</answer>"
STEPS = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1), "W": (0, 0)}
LETTERS = {step: letter for letter, step in STEPS.items()}

PLAIN = re.compile(r'[\[\]0-9, \t\r\n"UDLRW-]*')
MOVES = re.compile(r"[UDLRW]*")


class AnswerError(ValueError):
    """Why a text holds no plan."""


def longest(board: Board) -> int:
    """Characters a plan may take: twice what it takes to visit every cell with every agent."""
    return 20_000 + 20 * board.height * board.width * board.agents


def extract(text: str, board: Board) -> str:
    """The part of a text that claims to be the plan."""
    said = spoken(text)
    if said is None:
        raise AnswerError("the text ends within <think>")
    text = said
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


def claim(text: str, board: Board) -> str | Plan:
    """What a text claims to be a plan: moves or cells yet to be read, or a plan of coordinates."""
    content = extract(text, board)
    if not content:
        raise AnswerError("empty")
    if content == "-":  # nobody moves
        return "|".join("-" * board.agents)
    if not content.startswith("["):
        return content
    if not PLAIN.fullmatch(content):
        raise AnswerError("something beside the plan")
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise AnswerError("not a list of paths") from None
    if not value:
        raise AnswerError("not a list of paths")
    if all(isinstance(path, str) for path in value):
        if not all(MOVES.fullmatch(path) for path in value):
            raise AnswerError("moves other than U, D, L, R and W")
        return "|".join(path or "-" for path in value)
    return tuple(read_path(path) for path in value)


def read_all(
    texts: Sequence[str], which: Sequence[int], boards: Sequence[Board], arrays: Boards
) -> tuple[Plans, list[str]]:
    """The plan in each text, an answer for boards[which]; and why there is none, or ""."""
    reasons, bare = [""] * len(texts), [""] * len(texts)
    given: dict[int, Plan] = {}
    for place, (text, board) in enumerate(zip(texts, which, strict=True)):
        try:
            found = claim(text, boards[board])
        except AnswerError as error:
            reasons[place] = str(error)
            continue
        if isinstance(found, str):
            bare[place] = found
        else:
            given[place] = found
    room = [2 * len(content) + 1 for content in bare]
    for place, plan in given.items():
        room[place] = max(len(plan), sum(map(len, plan)))
    plans = make_plans(which, room)
    for place, plan in given.items():
        write_plan(plan, plans, place)
    ends = np.cumsum([0, *map(len, bare)])
    # One byte for each character: those beyond ASCII are in no plan, and become one that is not.
    letters = np.frombuffer("".join(bare).encode("ascii", "replace"), np.uint8)
    read_plans(letters, ends, arrays, plans)
    for place in (plans.paths < 0).nonzero()[0].tolist():
        reasons[place] = reasons[place] or no_plan(bare[place], plans.paths[place] == UNEVEN)
    return plans, reasons


def no_plan(content: str, uneven: bool) -> str:
    """Why something that is no list is no plan either."""
    if uneven:
        return "time steps with different numbers of agents"
    return "not a list of paths" if PLAIN.fullmatch(content) else "something beside the plan"


def parse(text: str, board: Board) -> Plan:
    """The plan in a text; raises AnswerError if there is not exactly one."""
    plans, (reason,) = read_all([text], [0], [board], boards_of([board]))
    if reason:
        raise AnswerError(reason)
    cells = zip(plans.rows.tolist(), plans.columns.tolist(), strict=True)
    return tuple(
        tuple(islice(cells, length)) for length in plans.lengths[: plans.paths[0]].tolist()
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


def walk_all(moves: Sequence[str], board: Board) -> Plan:
    """Paths from the moves of each agent."""
    return tuple(walk(start, word) for start, word in zip(board.starts, moves, strict=True))


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
