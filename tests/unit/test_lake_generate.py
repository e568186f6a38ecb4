"""Generated tasks are what the knobs say, certified, and never the same in two splits."""

import math
import random

import pytest

from coevolve.core.errors import KnobError
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.lake.board import Board
from coevolve.domains.lake.canonical import arrays_of, fingerprint
from coevolve.domains.lake.checks import check_plan
from coevolve.domains.lake.domain import LakeDomain, board_of, plan_of
from coevolve.domains.lake.generate import generate, measure
from coevolve.domains.lake.knobs import SPACE
from coevolve.domains.lake.solver.certify import solve
from coevolve.domains.lake.solver.exhaustive import exhaustive_cost
from coevolve.domains.lake.solver.layers import Lake

DOMAIN = LakeDomain()


def is_certified(task: Task) -> Board:
    """Assert that a task's plan is valid and costs what the task says; its board."""
    board = board_of(task)
    assert check_plan(board, plan_of(task)) == ([], task.data["cost"])
    return board


def test_realised_ratios_match_the_knobs_within_sampling_error():
    knobs = SPACE.project(
        {"agents1.share": 0.2, "agents2.share": 0.5, "agents4.share": 0.3}, base=SPACE.random(3)
    )
    tasks = list(generate(knobs, 4_000, 1, Split.TRAIN))
    found = measure(tasks)
    for name, (value, n) in found.items():
        if name.endswith(("data_ratio", "wait_ratio", ".share")):
            error = math.sqrt(knobs[name] * (1 - knobs[name]) / n)
            assert abs(value - knobs[name]) < 4.5 * error + 1e-9, name
        elif name.endswith("hole_ratio") and n > 30:
            # Small boards take one hole more or less where a split has none with the exact number.
            side = int(name.removeprefix("size").split(".")[0])
            assert abs(value - knobs[name]) < 0.5 / side**2 + 4.5 * 0.5 / side**2 / math.sqrt(n)


@pytest.mark.parametrize("seed", range(4))
def test_random_knobs_give_certified_tasks_in_every_split(seed):
    homes: dict[int, Split] = {}
    for split in Split:
        for task in generate(SPACE.random(seed), 250, seed, split):
            board = is_certified(task)
            assert solve(board).cost == task.data["cost"]
            assert homes.setdefault(fingerprint(board), split) is split
            if (board.height, board.agents) <= (5, 2):
                free, width, starts, goals = arrays_of(board)
                best = exhaustive_cost(Lake(free, width, True), starts, goals, 10**6)
                still = exhaustive_cost(Lake(free, width, False), starts, goals, 10**6)
                assert best == task.data["cost"]
                assert task.data["needs_wait"] == (still != best)


@pytest.mark.slow
def test_ten_thousand_boards_over_the_whole_knob_space():
    """Solvable, optimal where that can be checked independently, and in one split only."""
    rng = random.Random(0)
    homes: dict[int, str] = {}
    total = checked = 0
    for seed in range(125):
        changes: dict[str, object] = {name: rng.random() for name in SPACE.knobs if "ratio" in name}
        changes |= {f"agents{k}.share": rng.random() ** 3 for k in range(1, 9)}
        changes |= {"path_length.min": rng.randint(1, 3), "detour.min": rng.choice([0, 0, 0, 1])}
        knobs = SPACE.project(changes)
        for split in Split:
            for task in generate(knobs, 20, seed, split):
                board = is_certified(task)
                total += 1
                assert homes.setdefault(str(fingerprint(board)), split) == split
                free, width, starts, goals = arrays_of(board)
                if (width**2) ** board.agents * 2**board.agents <= 200_000:
                    best = exhaustive_cost(Lake(free, width, True), starts, goals, 10**6)
                    still = exhaustive_cost(Lake(free, width, False), starts, goals, 10**6)
                    assert (best, still != best) == (task.data["cost"], task.data["needs_wait"])
                    checked += 1
    assert total == 10_000
    assert checked > 300


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"size3.data_ratio": 1, "path_length.min": 20},
            r"path_length.min = 20 cannot be met \(3x3, 2 agents.*longest distance seen was \d",
        ),
        (
            {"size3.data_ratio": 1, "agents6.share": 1, "size3.hole_ratio": 0, "detour.max": 1,
             "path_length.min": 4},
            r"cannot be met.*3x3, 6 agents",
        ),
    ],
)  # fmt: skip
def test_requests_that_cannot_be_met_end_with_a_reason(changes, message):
    with pytest.raises(KnobError, match=message):
        list(generate(SPACE.parse(changes), 50, 0, Split.TRAIN))


def test_agents_numbers_tell_nothing():
    knobs = SPACE.parse({"size8.data_ratio": 1, "agents4.share": 1, "size8.wait_ratio": 1})
    distances = [task.data["distances"] for task in generate(knobs, 1_500, 0, Split.TRAIN)]
    means = [sum(column) / len(column) for column in zip(*distances, strict=True)]
    assert max(means) - min(means) < 0.35


def test_big_boards_and_many_agents():
    knobs = SPACE.parse({"size32.data_ratio": 1, "agents8.share": 1, "size32.hole_ratio": 0.3})
    tasks = list(generate(knobs, 6, 0, Split.GATE))
    assert [is_certified(task).agents for task in tasks] == [8] * 6


def test_lengths_and_detours_keep_to_their_ranges():
    knobs = SPACE.parse(
        {"path_length.min": 3, "path_length.max": 6, "detour.min": 1, "detour.max": 2,
         "size6.data_ratio": 0.5, "size7.data_ratio": 0.5, "size6.hole_ratio": 0.25,
         "size7.hole_ratio": 0.3}
    )  # fmt: skip
    for task in generate(knobs, 200, 0, Split.TRAIN):
        assert all(3 <= distance <= 6 for distance in task.data["distances"])
        assert 1 <= task.data["cost"] - sum(task.data["distances"]) <= 2


def test_a_task_that_lies_about_itself_is_refused():
    task = next(generate(SPACE.defaults(), 1, 0, Split.TRAIN)).model_dump(mode="json")
    for change, message in (
        ({"data": {**task["data"], "cost": 1}}, "claims cost = 1, but it is"),
        ({"data": {**task["data"], "needs_wait": None}}, "claims needs_wait = None"),
        ({"split": "test"}, "cannot be used in 'test'"),
        ({"domain": "math"}, "a task of the domain 'math'"),
        ({"extra": 1}, "not a task: extra"),
    ):
        with pytest.raises(Exception, match=message):
            DOMAIN.load(task | change)
