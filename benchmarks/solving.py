"""Random boards solved to optimality within one CPU second, beside the CBS of w9-pathfinding.

Boards are plain: each cell a hole by chance, starts and goals drawn from the free cells, redrawn as
a whole until each goal is connected to its start. That does not make them solvable for all agents
together, and such a board would count against both sides.
"""

import random
import statistics
import time
from typing import Any, NamedTuple

from measure import Row, Section
from plans import choices
from w9_pathfinding.envs import Grid
from w9_pathfinding.mapf import CBS

from coevolve.domains.lake.board import FREE, HOLE, Board
from coevolve.domains.lake.checks import check_plan
from coevolve.domains.lake.solver.certify import UndecidedError, UnsolvableError, solve

LIMIT_S = 1.0
NODES = 10_000
"""Where we give up: well over a second of search; `solve_ours` makes sure of that."""
LONGEST_PATH = 100
"""What w9 may use per agent; far more than any plan here needs."""


class Kind(NamedTuple):
    side: int
    agents: int
    hole_ratio: float
    hard: bool = False
    """Shown for what it is, without a target."""


KINDS = (Kind(8, 12, 0.1), Kind(8, 12, 0.2, hard=True), Kind(16, 8, 0.2))


class Attempt(NamedTuple):
    """One board by one solver; the cost is None if it was not solved in time."""

    seconds: float
    cost: int | None


def region(reach: dict[int, list[int]], cell: int) -> set[int]:
    """The cells that can be reached from a cell."""
    seen, queue = {cell}, [cell]
    while queue:
        fresh = set(reach[queue.pop()]) - seen
        seen |= fresh
        queue += fresh
    return seen


def random_board(kind: Kind, rng: random.Random) -> Board:
    side = kind.side
    while True:
        rows = tuple(
            "".join(HOLE if rng.random() < kind.hole_ratio else FREE for _ in range(side))
            for _ in range(side)
        )
        cells = [divmod(c, side) for c in range(side**2) if rows[c // side][c % side] == FREE]
        if len(cells) < kind.agents:
            continue
        starts, goals = rng.sample(cells, kind.agents), rng.sample(cells, kind.agents)
        board = Board(rows=rows, starts=tuple(starts), goals=tuple(goals))
        reach = choices(board)
        if all(
            goal[0] * side + goal[1] in region(reach, start[0] * side + start[1])
            for start, goal in zip(starts, goals, strict=True)
        ):
            return board


def solve_ours(board: Board) -> Attempt:
    begin = time.process_time()
    try:
        solution = solve(board, NODES)
    except (UndecidedError, UnsolvableError) as error:
        seconds = time.process_time() - begin
        if isinstance(error, UndecidedError) and seconds < LIMIT_S:
            raise SystemExit(f"gave up after {seconds:.2f} s; raise NODES (now {NODES})") from None
        return Attempt(seconds, None)
    seconds = time.process_time() - begin
    violations, cost = check_plan(board, solution.plan)
    if violations or cost != solution.cost:
        raise SystemExit(f"our plan is wrong: {violations}, cost {cost}, said {solution.cost}")
    return Attempt(seconds, cost if seconds <= LIMIT_S else None)


def solve_w9(board: Board, wall_s: float = LIMIT_S) -> Attempt:
    """w9 puts the column first. Its cost is taken from its paths, rest at goals not counted.

    Its time limit is one of wall time, so on a busy machine it is given more until the CPU time
    is used up.
    """
    weights = [[-1.0 if mark == HOLE else 1.0 for mark in row] for row in board.rows]
    starts, goals = ([(c, r) for r, c in cells] for cells in (board.starts, board.goals))
    begin = time.process_time()
    solver = CBS(Grid(weights, edge_collision=True), seed=0)
    try:
        paths = solver.mapf(starts, goals, max_length=LONGEST_PATH, max_time=wall_s)
    except RuntimeError:
        seconds = time.process_time() - begin
        return Attempt(seconds, None) if seconds >= LIMIT_S else solve_w9(board, 2 * wall_s)
    seconds = time.process_time() - begin
    if not paths:
        return Attempt(seconds, None)
    violations, cost = check_plan(board, tuple(tuple((r, c) for c, r in path) for path in paths))
    if violations:
        raise SystemExit(f"w9's plan is not valid by our rules: {violations}")
    return Attempt(seconds, cost if seconds <= LIMIT_S else None)


def summary(attempts: list[Attempt]) -> dict[str, Any]:
    """Counts and times in ms; an unsolved board counts with the limit, as if solved just then."""
    times = [1000 * (LIMIT_S if a.cost is None else a.seconds) for a in attempts]
    return {
        "boards": len(attempts),
        "solved": sum(attempt.cost is not None for attempt in attempts),
        "median_ms": statistics.median(times),
        "mean_ms": statistics.fmean(times),
        "seconds": [attempt.seconds for attempt in attempts],
        "costs": [attempt.cost for attempt in attempts],
    }


def measure_kind(kind: Kind, count: int) -> tuple[list[Row], dict[str, Any]]:
    rng = random.Random(f"benchmark {kind.side} {kind.agents} {kind.hole_ratio}")
    solve_ours(random_board(kind, rng))  # compiles
    boards = [random_board(kind, rng) for _ in range(count)]
    ours, theirs = [solve_ours(board) for board in boards], [solve_w9(board) for board in boards]
    both = [
        (mine.cost, other.cost)
        for mine, other in zip(ours, theirs, strict=True)
        if mine.cost is not None and other.cost is not None
    ]
    agreeing = sum(mine == other for mine, other in both)
    us, w9 = summary(ours), summary(theirs)
    name = f"{kind.side}x{kind.side}, {kind.agents} agents, hole ratio {kind.hole_ratio}"
    of, least = f"of {count}", None if kind.hard else count - 1
    rows = [
        Row(f"{name}: solved in 1 s", us["solved"], of, "w9 CBS", w9["solved"], least=least),
        Row("  median", us["median_ms"], "ms", "w9 CBS", w9["median_ms"], less_is_better=True),
        Row("  mean", us["mean_ms"], "ms", "w9 CBS", w9["mean_ms"], less_is_better=True),
        Row("  costs agree where both solved", agreeing, f"of {len(both)}", least=len(both)),
    ]
    return rows, {"ours": us, "w9": w9}


def measure_solving(count: int) -> Section:
    section = Section("solving")
    for kind in KINDS:
        rows, details = measure_kind(kind, count)
        section.rows += rows
        section.details[f"{kind.side}x{kind.side} {kind.agents} {kind.hole_ratio}"] = details
    section.notes = [
        "An unsolved board counts with 1000 ms in medians and means, so they are too low where "
        "boards are unsolved. Ours also decides whether waiting is needed; w9 only solves.",
    ]
    return section
