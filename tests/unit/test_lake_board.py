"""Boards that cannot be, and boards that are the same."""

import random

import pytest
from boards import random_board
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.core.errors import UserError
from coevolve.domains.lake.board import Board, parse_board
from coevolve.domains.lake.canonical import fingerprint

GOOD = {"rows": ["..", "O."], "starts": [[0, 0]], "goals": [[1, 1]]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": ["..", "O"]}, "row 1 has 1 cells, row 0 has 2"),
        ({"rows": ["..", "X."]}, r"row 1 holds \['X'\]"),
        ({"rows": []}, "the board is 0x0"),
        ({"rows": "..O."}, "rows"),
        ({"starts": [[1, 0]]}, r"start \[1, 0\] of agent 0 is a hole"),
        ({"goals": [[2, 0]]}, r"goal \[2, 0\] of agent 0 is off the board"),
        ({"goals": [[0.5, 0]]}, "goals.0.0"),
        ({"goals": [[1, 1], [0, 1]]}, "1 starts and 2 goals"),
        ({"starts": [[0, 0], [0, 1]], "goals": [[1, 1], [1, 1]]}, "two agents share a goal"),
        ({"starts": [], "goals": []}, "0 starts"),
    ],
)
def test_impossible_boards_are_refused(change, message):
    with pytest.raises(UserError, match=message):
        parse_board(GOOD | change)


def test_missing_keys_are_named():
    with pytest.raises(UserError, match="missing: starts, goals"):
        parse_board({"rows": [".."]})


def turned(board: Board) -> Board:
    """The board a quarter turn to the right."""
    rows = tuple("".join(column) for column in zip(*board.rows[::-1], strict=True))
    last = board.height - 1
    turn = lambda cells: tuple((c, last - r) for r, c in cells)  # noqa: E731
    return Board(rows=rows, starts=turn(board.starts), goals=turn(board.goals))


def mirrored(board: Board) -> Board:
    rows = tuple(row[::-1] for row in board.rows)
    last = board.width - 1
    flip = lambda cells: tuple((r, last - c) for r, c in cells)  # noqa: E731
    return Board(rows=rows, starts=flip(board.starts), goals=flip(board.goals))


@settings(max_examples=150)
@given(st.integers(0, 10**6), st.integers(2, 7), st.integers(2, 7), st.integers(1, 4), st.randoms())
def test_rotation_reflection_and_renaming_do_not_change_the_fingerprint(
    seed, size, width, agents, shuffler
):
    board = random_board(random.Random(seed), size, 0.2, min(agents, size), width)
    mark = fingerprint(board)
    for _ in range(4):
        board = turned(board)
        assert fingerprint(board) == mark
        assert fingerprint(mirrored(board)) == mark
    order = list(range(board.agents))
    shuffler.shuffle(order)
    renamed = Board(
        rows=board.rows,
        starts=tuple(board.starts[i] for i in order),
        goals=tuple(board.goals[i] for i in order),
    )
    assert fingerprint(renamed) == mark


def test_different_boards_have_different_fingerprints():
    rng = random.Random(3)
    marks: dict[int, list[Board]] = {}
    for _ in range(3_000):
        board = random_board(rng, 4, 0.2, 2)
        marks.setdefault(fingerprint(board), []).append(board)
    for boards in marks.values():
        images = set()
        board = boards[0]
        for _ in range(4):
            board = turned(board)
            images |= {form(board), form(mirrored(board))}
        assert all(form(other) in images for other in boards)


def form(board: Board) -> tuple[object, ...]:
    """What a board is, up to the order of its agents."""
    return (board.rows, frozenset(zip(board.starts, board.goals, strict=True)))


def test_swapping_starts_and_goals_is_another_board():
    board = Board(rows=("...", "..O", "..."), starts=((0, 0),), goals=((2, 1),))
    back = Board(rows=board.rows, starts=board.goals, goals=board.starts)
    assert fingerprint(board) != fingerprint(back)
