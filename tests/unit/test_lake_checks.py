"""The eight checks, one by one, and against a plain reading of the rules."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.domains.lake.board import Board, Plan
from coevolve.domains.lake.checks import CHECKS, MEANING, check_plan

BOARD = Board(rows=("....", ".O..", "...."), starts=((0, 0), (2, 0)), goals=((0, 2), (2, 2)))
A = ((0, 0), (0, 1), (0, 2))
B = ((2, 0), (2, 1), (2, 2))


def test_a_valid_plan_passes_all_checks():
    assert check_plan(BOARD, (A, B)) == ([], 4)
    assert set(MEANING) == set(CHECKS)
    assert len(CHECKS) == 8


@pytest.mark.parametrize(
    ("plan", "check", "agent", "time", "other"),
    [
        ((A,), "agents", None, None, None),
        ((A, B, B), "agents", None, None, None),
        (((), B), "start", 0, 0, None),
        ((A[1:], B), "start", 0, 0, None),
        ((A, ((2, 0), (2, 2))), "step", 1, 1, None),
        ((A, ((2, 0), (1, 1), (2, 2))), "step", 1, 1, None),
        ((((0, 0), (-1, 0), (0, 0), *A[1:]), B), "bounds", 0, 1, None),
        ((((0, 0), (0, 1), (1, 1), (0, 1), (0, 2)), B), "hole", 0, 2, None),
        ((((0, 0), (1, 0), (0, 0), *A[1:]), ((2, 0), (1, 0), (2, 0), *B[1:])), "conflict", 0, 1, 1),
        ((A[:2], B), "goal", 0, 1, None),
    ],
)
def test_each_check_fails_where_it_should(plan, check, agent, time, other):
    first = check_plan(BOARD, plan)[0][0]
    assert (first.check, first.agent, first.time, first.other) == (check, agent, time, other)
    assert first.describe().startswith(MEANING[check])


def test_a_swap_is_a_conflict_and_following_is_not():
    line = Board(rows=("....",), starts=((0, 0), (0, 1)), goals=((0, 1), (0, 2)))
    follow: Plan = (((0, 0), (0, 1)), ((0, 1), (0, 2)))
    assert check_plan(line, follow) == ([], 2)
    board = Board(rows=("....",), starts=((0, 0), (0, 1)), goals=((0, 1), (0, 0)))
    swap: Plan = (((0, 0), (0, 1)), ((0, 1), (0, 0)))
    assert [v.check for v in check_plan(board, swap)[0]] == ["conflict"]


def test_an_agent_at_rest_is_in_the_way():
    board = Board(rows=("...",), starts=((0, 1), (0, 0)), goals=((0, 1), (0, 2)))
    violations, _ = check_plan(board, (((0, 1),), ((0, 0), (0, 1), (0, 2))))
    assert (violations[0].check, violations[0].time) == ("conflict", 1)


def test_resting_at_the_goal_costs_nothing_until_the_agent_leaves_it():
    board = Board(rows=("...",), starts=((0, 0),), goals=((0, 1),))
    assert check_plan(board, (((0, 0), (0, 1), (0, 1), (0, 1)),)) == ([], 1)
    assert check_plan(board, (((0, 0), (0, 1), (0, 2), (0, 1), (0, 1)),)) == ([], 3)


def plain_reading(board: Board, plan: Plan) -> set[str]:
    """The rules, written out as simply as can be."""
    failed: set[str] = set()
    last = max(len(path) for path in plan)
    at = lambda path, t: path[min(t, len(path) - 1)]  # noqa: E731
    for path, start, goal in zip(plan, board.starts, board.goals, strict=True):
        if path[0] != start:
            failed.add("start")
        if path[-1] != goal:
            failed.add("goal")
        for (r, c), (q, d) in itertools.pairwise(path):
            if abs(r - q) + abs(c - d) > 1:
                failed.add("step")
        for r, c in path:
            if not (0 <= r < board.height and 0 <= c < board.width):
                failed.add("bounds")
            elif board.rows[r][c] == "O":
                failed.add("hole")
    on = lambda cell: 0 <= cell[0] < board.height and 0 <= cell[1] < board.width  # noqa: E731
    for t in range(last):
        for i, first in enumerate(plan):
            for second in plan[:i]:
                if at(first, t) == at(second, t) and on(at(first, t)):
                    failed.add("conflict")
                swapped = at(first, t + 1) == at(second, t) and at(second, t + 1) == at(first, t)
                if (
                    swapped
                    and at(first, t) != at(second, t)
                    and on(at(first, t))
                    and on(at(second, t))
                ):
                    failed.add("conflict")
    return failed


@st.composite
def boards_and_plans(draw: st.DrawFn) -> tuple[Board, Plan]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows = tuple("".join(rng.choice(list("...O"), 4)) for _ in range(3))
    free = [(r, c) for r in range(3) for c in range(4) if rows[r][c] == "."]
    if len(free) < 3:
        rows, free = ("....",) * 3, [(r, c) for r in range(3) for c in range(4)]
    pick = lambda: tuple(free[i] for i in rng.permutation(len(free))[:3])  # noqa: E731
    board = Board(rows=rows, starts=pick(), goals=pick())
    plan = []
    for agent in range(3):
        path = [board.starts[agent]]
        for _ in range(int(rng.integers(0, 7))):
            step = [(0, 1), (1, 0), (0, -1), (-1, 0), (0, 0), (2, 0)][
                rng.choice(6, p=[0.19] * 5 + [0.05])
            ]
            path.append((path[-1][0] + step[0], path[-1][1] + step[1]))
        plan.append(tuple(path))
    return board, tuple(plan)


@settings(max_examples=800)
@given(boards_and_plans())
def test_checks_agree_with_a_plain_reading_of_the_rules(case):
    board, plan = case
    assert {violation.check for violation in check_plan(board, plan)[0]} == plain_reading(
        board, plan
    )
