"""The search finds the optimum: public boards, another solver, and exhaustive search say so."""

import itertools
import json
import random
import time

import pytest
from boards import random_board
from w9_pathfinding.envs import Grid
from w9_pathfinding.mapf import CBS

from coevolve.domains.lake.board import Board
from coevolve.domains.lake.canonical import arrays_of
from coevolve.domains.lake.checks import check_plan
from coevolve.domains.lake.solver.certify import (
    STATES,
    UndecidedError,
    UnsolvableError,
    solve,
)
from coevolve.domains.lake.solver.exhaustive import exhaustive_cost
from coevolve.domains.lake.solver.layers import Lake


def exhaustive(board: Board, wait: bool) -> int:
    free, width, starts, goals = arrays_of(board)
    return int(exhaustive_cost(Lake(free, width, wait), starts, goals, STATES))


def w9_cost(board: Board) -> int | None:
    """The optimal cost by w9-pathfinding's CBS, None if it has no answer in time."""
    weights = [[-1 if mark == "O" else 1 for mark in row] for row in board.rows]
    grid = Grid(weights, edge_collision=True)
    swap = lambda cells: [(column, row) for row, column in cells]  # noqa: E731
    try:
        paths = CBS(grid).mapf(swap(board.starts), swap(board.goals), max_length=200, max_time=2)
    except RuntimeError:
        return None
    assert paths
    cost = 0
    for path, goal in zip(paths, swap(board.goals), strict=True):
        while len(path) > 1 and tuple(path[-2]) == goal:
            path = path[:-1]
        cost += len(path) - 1
    return cost


@pytest.mark.parametrize("name", ["public_8x8.jsonl", "public_32x32.jsonl"])
def test_public_boards_are_solved_to_their_known_cost(public_boards, name):
    lines = (public_boards / name).read_text().splitlines()
    assert len(lines) >= 25
    for line in lines:
        data = json.loads(line)
        board = Board(rows=data["rows"], starts=data["starts"], goals=data["goals"])
        solution = solve(board)
        assert solution.cost == data["optimal_sum_of_costs"], data["id"]
        assert check_plan(board, solution.plan) == ([], solution.cost)


def test_cost_and_waiting_agree_with_exhaustive_search():
    rng = random.Random(11)
    waits = solved = unsolvable = 0
    for _ in range(250):
        size, agents = rng.choice([(3, 1), (3, 2), (4, 2), (5, 2), (3, 3), (4, 3), (5, 3)])
        board = random_board(rng, size, rng.choice([0.0, 0.15, 0.3, 0.4]), agents)
        best = exhaustive(board, wait=True)
        if best < 0:
            with pytest.raises(UnsolvableError):
                solve(board)
            unsolvable += 1
            continue
        solution = solve(board)
        assert check_plan(board, solution.plan) == ([], best)
        assert solution.cost == best
        assert solution.needs_wait == (exhaustive(board, wait=False) != best)
        solved += 1
        waits += solution.needs_wait
    assert solved > 200
    assert waits > 10
    assert unsolvable > 0


@pytest.mark.parametrize(("size", "holes", "agents"), [(8, 0.2, 6), (12, 0.2, 6), (8, 0.1, 10)])
def test_cost_agrees_with_another_solver(size, holes, agents):
    rng = random.Random(size * agents)
    compared = 0
    for _ in range(25):
        board = random_board(rng, size, holes, agents)
        theirs = w9_cost(board)
        if theirs is not None:
            assert solve(board).cost == theirs
            compared += 1
    assert compared >= 15


def test_a_plan_without_waits_is_given_where_one_exists():
    rng = random.Random(4)
    seen = 0
    for _ in range(300):
        board = random_board(rng, 5, 0.25, 3)
        try:
            solution = solve(board)
        except UnsolvableError:
            continue
        waited = any(
            before == after for path in solution.plan for before, after in itertools.pairwise(path)
        )
        assert waited == solution.needs_wait
        seen += solution.cost > sum(solution.distances)
    assert seen > 30


def test_a_swap_in_a_corridor_is_proved_impossible():
    board = Board(rows=("......",), starts=((0, 0), (0, 5)), goals=((0, 5), (0, 0)))
    with pytest.raises(UnsolvableError, match="every joint position"):
        solve(board)


@pytest.mark.slow
def test_a_small_lake_on_a_big_board_is_solved_like_the_small_one():
    starts, goals = ((1, 0), (1, 1), (1, 2), (1, 3)), ((1, 3), (1, 2), (1, 1), (1, 0))
    small = ("OOOOO.OOOOOO", "." * 12)
    big = (*(row + "O" * 4 for row in small), *("O" * 16,) * 8)
    costs = [solve(Board(rows=rows, starts=starts, goals=goals)).cost for rows in (small, big)]
    assert costs == [61, 61]


@pytest.mark.parametrize("rows", [("..",), ("..", ".O"), ("...O", "OO.O")])
def test_tiny_boards_without_a_plan_are_settled_quickly(rows):
    free = [(r, c) for r, row in enumerate(rows) for c, mark in enumerate(row) if mark == "."]
    began = time.process_time()
    with pytest.raises(UnsolvableError):
        solve(Board(rows=rows, starts=tuple(free), goals=(*free[1::-1], *free[2:])))
    assert time.process_time() - began < 5


def test_a_goal_behind_holes_names_the_agent():
    board = Board(rows=(".O.", ".O.", ".O."), starts=((0, 0), (1, 0)), goals=((2, 0), (0, 2)))
    with pytest.raises(UnsolvableError, match="agent 1 cannot reach its goal"):
        solve(board)


def test_giving_up_is_not_a_proof():
    rng = random.Random(1)
    board = random_board(rng, 8, 0.2, 12)
    with pytest.raises(UndecidedError, match=r"within \d+ search nodes; raise the limit"):
        solve(board, limit=1)


def test_an_agent_already_at_its_goal_costs_nothing():
    board = Board(rows=("...", "..."), starts=((0, 0), (1, 2)), goals=((0, 0), (1, 0)))
    solution = solve(board)
    assert solution.cost == 2
    assert solution.plan[0] == ((0, 0),)


@pytest.mark.parametrize("turned", [False, True])
def test_boards_of_one_row_as_wide_as_a_word(turned):
    cells = lambda *columns: tuple((c, 0) if turned else (0, c) for c in columns)  # noqa: E731
    rows = (".",) * 64 if turned else ("." * 64,)
    solution = solve(Board(rows=rows, starts=cells(0, 1), goals=cells(61, 63)))
    assert (solution.cost, solution.distances) == (61 + 62, (61, 62))
    with pytest.raises(UnsolvableError):
        solve(Board(rows=rows, starts=cells(0, 1), goals=cells(1, 0)))
