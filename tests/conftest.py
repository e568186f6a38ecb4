"""Shared by all tests: where the public data lies, and random boards."""

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from coevolve.domains.lake.board import Board

SHARED = Path(__file__).parents[2] / "shared" / "data"

# What fails, fails for everybody, and on a busy machine, too, nothing else does. New examples:
# pytest --hypothesis-profile=default
hypothesis.settings.register_profile(
    "steady",
    derandomize=True,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("steady")


@pytest.fixture(autouse=True)
def recursion_limit() -> Iterator[None]:
    """Programs that tests run in this process may raise the limit; later ones must not crash."""
    limit = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(limit)


@pytest.fixture
def public_boards() -> Path:
    """The folder of public boards with known optimal costs."""
    folder = SHARED / "mapf"
    if not folder.is_dir():
        pytest.skip(f"the public boards are not at {folder}")
    return folder


@pytest.fixture
def gsm8k() -> list[dict[str, str]]:
    """GSM8K with its solutions, both parts of it."""
    folder = SHARED / "math"
    if not folder.is_dir():
        pytest.skip(f"GSM8K is not at {folder}")
    files = [folder / f"gsm8k_{part}.jsonl" for part in ("train", "test")]
    return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]


def random_board(
    rng: random.Random, size: int, holes: float, agents: int, width: int | None = None
) -> Board:
    """A board, square unless told, with random holes, starts and goals; each goal can be reached
    from its start, but the board as a whole need not be solvable."""
    width = width or size
    while True:
        cells = [(r, c) for r in range(size) for c in range(width)]
        water = set(rng.sample(cells, round(holes * size * width)))
        free = [cell for cell in cells if cell not in water]
        if len(free) < agents:
            continue
        home = components(set(free))
        starts, goals = rng.sample(free, agents), rng.sample(free, agents)
        if all(home[s] == home[g] for s, g in zip(starts, goals, strict=True)):
            rows = [
                "".join("O" if (r, c) in water else "." for c in range(width)) for r in range(size)
            ]
            return Board(rows=tuple(rows), starts=tuple(starts), goals=tuple(goals))


def components(free: set[tuple[int, int]]) -> dict[tuple[int, int], tuple[int, int]]:
    """For each free cell, one cell that stands for all that are connected to it."""
    home: dict[tuple[int, int], tuple[int, int]] = {}
    for root in sorted(free):
        stack = [] if root in home else [root]
        while stack:
            row, column = cell = stack.pop()
            if cell in home or cell not in free:
                continue
            home[cell] = root
            stack += [(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)]
    return home
