"""The stepper keeps the rules that `check_plan` checks, whatever the boards and actions."""

from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.core.errors import UserError
from coevolve.domains.lake.board import HOLE, Board, Cell, Path
from coevolve.domains.lake.checks import BOUNDS, CHECKS, CONFLICT, IN_HOLE, check_plan
from coevolve.domains.lake.stepper import FIRST, MOST_AGENTS, MOVES, WATER, Lakes

UP, DOWN, LEFT, RIGHT, WAIT = range(5)
STEPS = 12


def random_board(random: np.random.Generator, height: int, width: int, agents: int) -> Board:
    """A board with random holes; it need not be solvable."""
    cells = [(int(c) // width, int(c) % width) for c in random.permutation(height * width)]
    spare = max(0, len(cells) - 2 * agents)
    holes = set(cells[: int(random.integers(spare // 2 + 1))])
    free = [cell for cell in cells if cell not in holes]
    goals = [free[i] for i in random.permutation(len(free))[:agents]]
    rows = ("".join("O" if (r, c) in holes else "." for c in range(width)) for r in range(height))
    return Board(rows=tuple(rows), starts=tuple(free[:agents]), goals=tuple(goals))


def shortest(board: Board, agent: int) -> list[int]:
    """Actions of a shortest path of one agent alone, none if there is no path."""
    start, goal = board.starts[agent], board.goals[agent]
    seen: dict[Cell, list[int]] = {start: []}
    queue = deque([start])
    while queue:
        row, column = queue.popleft()
        for action, (down, right) in enumerate(MOVES):
            cell = (row + down, column + right)
            inside = 0 <= cell[0] < board.height and 0 <= cell[1] < board.width
            if inside and cell not in seen and board.rows[cell[0]][cell[1]] != HOLE:
                seen[cell] = [*seen[row, column], action]
                queue.append(cell)
    return seen.get(goal, [])


def random_actions(random: np.random.Generator, board: Board) -> np.ndarray:
    """(T, N): per agent random, mostly legal, or shortest after a short wait."""
    actions = np.full((STEPS, board.agents), WAIT, np.int8)
    for agent in range(board.agents):
        if random.random() < 0.3:
            actions[:, agent] = random.integers(0, 5, STEPS)
        else:
            wait = int(random.integers(3))
            path = shortest(board, agent)[: STEPS - wait]
            actions[wait : wait + len(path), agent] = path
    return actions


def walk(board: Board, actions: np.ndarray) -> tuple[Path, ...]:
    """The paths that actions describe, through holes and off the board."""
    plan = []
    for agent, (row, column) in enumerate(board.starts):
        path = [(row, column)]
        for action in actions[:, agent]:
            row, column = row + MOVES[action][0], column + MOVES[action][1]
            path.append((row, column))
        plan.append(tuple(path))
    return tuple(plan)


def expected(board: Board, actions: np.ndarray) -> tuple[int, int, bool]:
    """By `check_plan`: the step that ends the episode (or the last), its failure, if solved."""
    plan = walk(board, actions)
    found, _ = check_plan(board, plan)
    ends = {
        CHECKS.index(v.check): v.time for v in found if v.check in ("bounds", "hole", "conflict")
    }
    first = min((t for t in ends.values() if t is not None), default=len(actions) + 1)
    for t in range(1, len(actions) + 1):
        if t == first:
            return t, min(check for check, time in ends.items() if time == t), False
        if all(path[t] == goal for path, goal in zip(plan, board.goals, strict=True)):
            assert check_plan(board, tuple(path[: t + 1] for path in plan))[0] == []
            return t, 0, True
    return len(actions), 0, False


def drawn(lakes: Lakes, boards: list[Board]) -> np.ndarray:
    """The grid as it must be for the positions."""
    grid = np.array([[WATER * (m == HOLE) for row in b.rows for m in row] for b in boards], np.int8)
    for b, cells in enumerate(lakes.positions):
        for agent, cell in enumerate(cells):
            grid[b, cell] = FIRST + agent
    return grid


@settings(max_examples=400)
@given(
    height=st.integers(1, 5),
    width=st.integers(1, 5),
    agents=st.integers(1, 5),
    seed=st.integers(0, 2**32 - 1),
)
def test_agrees_with_check_plan(height: int, width: int, agents: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    board = random_board(random, height, width, min(agents, height * width))
    actions = random_actions(random, board)
    lakes = Lakes([board], auto_reset=False)
    for action in actions:
        before = lakes.positions.copy()
        grid, reward, done, failure = lakes.step(action[None])
        assert (grid == drawn(lakes, [board])).all()
        if failure[0]:
            assert (lakes.positions == before).all()
        if done[0]:
            break
    solved = reward[0] == 1
    assert (lakes.time[0], failure[0], solved) == expected(board, actions)
    assert bool(done[0]) == bool(solved or failure[0])


def test_every_ending_occurs_in_random_play() -> None:
    random = np.random.default_rng(0)
    endings = set()
    for _ in range(300):
        board = random_board(random, 4, 4, 2)
        _, failure, solved = expected(board, random_actions(random, board))
        endings.add((failure, solved))
    assert endings == {(0, True), (0, False), (BOUNDS, False), (IN_HOLE, False), (CONFLICT, False)}


@pytest.mark.parametrize("agents", [1, 4, 9])
def test_a_batch_is_its_boards_one_by_one_with_resets(agents: int) -> None:
    random = np.random.default_rng(agents)
    boards = [random_board(random, 6, 5, agents) for _ in range(40)]
    many = Lakes(boards, time_limit=7)
    single = [Lakes([board], time_limit=7, auto_reset=False) for board in boards]
    resets = 0
    for _ in range(60):
        actions = np.where(random.random((40, agents)) < 0.6, WAIT, random.integers(0, 5, agents))
        grid, reward, done, failure = many.step(actions)
        assert (grid == drawn(many, boards)).all()
        for b, lake in enumerate(single):
            if lake.done[0]:
                lake.reset()
                resets += 1
            lake.step(actions[b : b + 1])
            assert (lake.grid[0] == grid[b]).all()
            assert (lake.positions[0] == many.positions[b]).all()
            assert (lake.reward[0], lake.done[0]) == (reward[b], done[b])
            assert (lake.failure[0], lake.time[0]) == (failure[b], many.time[b])
            assert lake.truncated[0] == many.truncated[b]
    assert resets > 100


def row(starts: tuple[int, ...], goals: tuple[int, ...], cells: str = "....") -> Board:
    """A board of one row."""
    return Board(
        rows=(cells,), starts=tuple((0, c) for c in starts), goals=tuple((0, c) for c in goals)
    )


@pytest.mark.parametrize(
    ("board", "actions", "failure"),
    [
        (row((1, 2), (2, 1)), (RIGHT, LEFT), CONFLICT),  # a swap, even onto the goals
        (row((0, 2), (1, 3)), (RIGHT, LEFT), CONFLICT),  # both into one cell
        (row((0, 1), (1, 3)), (RIGHT, WAIT), CONFLICT),  # into one who waits
        (row((0, 1), (1, 3), "..O."), (RIGHT, RIGHT), IN_HOLE),
        (row((0, 1), (1, 3)), (UP, RIGHT), BOUNDS),
        (row((0, 3), (1, 0)), (RIGHT, RIGHT), BOUNDS),  # no wrap to another row or the front
        (row((0, 1), (1, 3), "..O."), (LEFT, RIGHT), BOUNDS),  # the first of two checks
    ],
)
def test_a_failure_moves_no_one(board: Board, actions: tuple[int, int], failure: int) -> None:
    lakes = Lakes([board], auto_reset=False)
    shown = lakes.grid.copy()
    grid, reward, done, found = lakes.step([actions])
    assert (reward[0], done[0], found[0], lakes.time[0]) == (0, True, failure, 1)
    assert (grid == shown).all()
    assert lakes.positions.tolist() == [[c for _, c in board.starts]]


def test_following_is_allowed_in_rows_and_rings() -> None:
    convoy = Lakes([row((0, 1, 2), (1, 2, 3))])
    _, reward, done, failure = convoy.step([[RIGHT] * 3])
    assert (reward[0], done[0], failure[0]) == (1, True, 0)
    corners = ((0, 0), (0, 1), (1, 1), (1, 0))
    ring = Lakes([Board(rows=("..", ".."), starts=corners, goals=(*corners[1:], corners[0]))])
    _, reward, done, failure = ring.step([[RIGHT, DOWN, LEFT, UP]])
    assert (reward[0], done[0], failure[0]) == (1, True, 0)


def test_auto_reset_begins_anew_and_steps_in_the_same_call() -> None:
    lakes = Lakes([row((0,), (1,)), row((0,), (3,))])
    lakes.step([[RIGHT], [RIGHT]])
    assert lakes.done.tolist() == [True, False]
    grid, reward, done, _ = lakes.step([[WAIT], [RIGHT]])
    assert grid.tolist() == [[FIRST, 0, 0, 0], [0, 0, FIRST, 0]]
    assert (reward.tolist(), done.tolist(), lakes.time.tolist()) == ([0, 0], [False, False], [1, 2])


def test_without_auto_reset_a_done_board_stays_until_reset() -> None:
    lakes = Lakes([row((0,), (1,)), row((0,), (3,))], auto_reset=False)
    lakes.step([[LEFT], [RIGHT]])
    grid, reward, done, failure = lakes.step([[RIGHT], [RIGHT]])
    assert grid[0].tolist() == [FIRST, 0, 0, 0]
    assert (reward[0], done[0], failure[0], lakes.time[0]) == (0, True, BOUNDS, 1)
    lakes.reset(done)
    assert (lakes.done.tolist(), lakes.failure[0]) == ([False, False], 0)
    assert lakes.positions.tolist() == [[0], [2]]
    assert lakes.reset().tolist() == [[FIRST, 0, 0, 0]] * 2


def test_the_time_limit_truncates_unless_the_last_step_solves() -> None:
    lakes = Lakes([row((0,), (2,)), row((0,), (3,)), row((0,), (3,))], time_limit=2)
    lakes.step([[RIGHT], [RIGHT], [RIGHT]])
    _, reward, done, failure = lakes.step([[RIGHT], [RIGHT], [UP]])
    assert reward.tolist() == [1, 0, 0]
    assert failure.tolist() == [0, 0, BOUNDS]
    assert done.all()
    assert lakes.truncated.tolist() == [False, True, False]


def test_results_are_the_same_arrays_at_every_step() -> None:
    lakes = Lakes([row((0,), (3,))])
    first, second = lakes.step([[RIGHT]]), lakes.step([[RIGHT]])
    assert all(one is other for one, other in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("boards", "complaint"),
    [
        ([], "no boards"),
        ([row((0,), (3,)), row((0,), (3,), ".....")], "board 1 is 1x5 with 1 agents, board 0 is"),
        ([row((0,), (3,)), row((0, 1), (3, 2))], "board 1 is 1x4 with 2 agents"),
    ],
)
def test_unlike_boards_are_refused(boards: list[Board], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        Lakes(boards)


def test_too_many_agents_are_refused_and_the_most_are_not() -> None:
    cells = tuple((r, c) for r in range(64) for c in range(64))
    rows = ("." * 64,) * 64
    most = Board(rows=rows, starts=cells[:MOST_AGENTS], goals=cells[-MOST_AGENTS:])
    grid, *_ = Lakes([most]).step(np.full((1, MOST_AGENTS), DOWN))
    assert (grid.max(), grid[0, 64]) == (127, FIRST)
    more = Board(rows=rows, starts=cells[: MOST_AGENTS + 1], goals=cells[: MOST_AGENTS + 1])
    with pytest.raises(UserError, match=f"up to {MOST_AGENTS}"):
        Lakes([more])


@pytest.mark.parametrize(
    "actions",
    [
        np.zeros((1, 2), np.int8),
        np.zeros((2, 1), np.float32),
        np.array([[0], [5]], np.int8),
        np.array([[0], [-1]], np.int8),
        np.array([[256], [0]], np.int64),
        np.array([[2**63], [0]], np.uint64),
    ],
)
def test_strange_actions_are_refused_before_anything_moves(actions: np.ndarray) -> None:
    lakes = Lakes([row((1,), (3,))] * 2)
    with pytest.raises(UserError, match="actions"):
        lakes.step(actions)
    assert (lakes.positions.tolist(), lakes.time.tolist()) == ([[1], [1]], [0, 0])


def test_other_integers_and_strides_are_taken() -> None:
    lakes = Lakes([row((1,), (3,))] * 2)
    wide = np.full((2, 2), RIGHT, np.int8)
    for actions in (wide[:, ::2], wide[:, :1].astype(np.uint64)):
        grid, *_ = lakes.step(actions)
    assert grid.tolist() == [[0, 0, 0, FIRST]] * 2


def test_strange_options_are_refused() -> None:
    with pytest.raises(UserError, match="time limit of 0"):
        Lakes([row((0,), (3,))], time_limit=0)
    with pytest.raises(UserError, match="boards to reset"):
        Lakes([row((0,), (3,))]).reset(np.zeros(2, np.bool_))
