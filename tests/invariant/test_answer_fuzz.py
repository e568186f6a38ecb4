"""Ten thousand spoilt answers to the lake and to lessons: no crash, no hang, no false accept."""

import random
import time
from itertools import combinations, pairwise

import pytest

from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.registry import get_domain

COUNT = 10_000
SLOWEST_S = 20.0
STEPS = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1), "W": (0, 0)}
LETTERS = "UDLRW| ,/[]{}\"'<>0123456789-.:\n\x00é同"


def spoilt(text: str, rng: random.Random) -> str:
    """A few letters put in, taken out, changed or moved."""
    letters = list(text)
    for _ in range(rng.randint(0, 4)):
        place = rng.randrange(len(letters) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            letters.insert(place, rng.choice(LETTERS))
        elif kind == 1:
            del letters[place : place + rng.choice((1, 1, 1, 20))]
        elif kind == 2 and place < len(letters):
            letters[place] = rng.choice(LETTERS[:5] if rng.random() < 0.7 else LETTERS)
        else:
            cut = rng.randrange(len(letters) + 1)
            letters[place:place] = letters[cut : cut + rng.randint(1, 8)]
    return "".join(letters)


def plainly_valid(task: Task, text: str) -> bool:
    """The rules of the lake for one word of moves per agent, written out."""
    rows, words = task.data["rows"], text.strip().split("|")
    if len(words) != len(task.data["starts"]):
        return False
    paths = []
    for word, start, goal in zip(words, task.data["starts"], task.data["goals"], strict=True):
        path = [tuple(start)]
        for letter in word.strip():
            if letter not in STEPS:
                return False
            path.append((path[-1][0] + STEPS[letter][0], path[-1][1] + STEPS[letter][1]))
        inside = all(0 <= r < len(rows) and 0 <= c < len(rows[0]) for r, c in path)
        if not inside or any(rows[r][c] == "O" for r, c in path) or path[-1] != tuple(goal):
            return False
        paths.append(path)
    longest = max(map(len, paths))
    paths = [path + [path[-1]] * (longest - len(path)) for path in paths]
    return all(
        all(a != b for a, b in zip(one, other, strict=True))
        and all(
            (a, b) != (d, c) for (a, c), (b, d) in zip(pairwise(one), pairwise(other), strict=True)
        )
        for one, other in combinations(paths, 2)
    )


def answers(name: str, style: str, seed: int, count: int = COUNT) -> tuple[int, int]:
    """How many of the spoilt answers are valid, by the verdict and by a plain reading."""
    domain, rng = get_domain(name), random.Random(seed)
    knobs = {"agents2.share": 0.5, "agents3.share": 0.5} if name == "lake" else {}
    tasks = list(domain.generate(domain.space.parse(knobs), 100, seed, Split.TRAIN))
    accepted = plainly = 0
    for number in range(count):
        task = tasks[number % len(tasks)]
        text = spoilt(domain.oracle(task, style), rng)
        began = time.monotonic()
        found = domain.verify(task, text)
        assert time.monotonic() - began < SLOWEST_S, text
        assert found == domain.verify(task, text), text
        assert (found.failure is None) == found.valid, text
        assert found.failure is None or found.failure in domain.failures, text
        accepted += found.valid
        if style == "compact":
            rightly = plainly_valid(task, text)
            plainly += rightly
            assert rightly or not found.valid, text
    return accepted, plainly


def test_the_lake_accepts_what_a_plain_reading_accepts() -> None:
    accepted, plainly = answers("lake", "compact", 1)
    assert 0.1 * COUNT < accepted <= plainly < COUNT


@pytest.mark.parametrize("style", ["cells", "paths"])
def test_other_styles_of_the_lake_stand_spoilt_answers(style: str) -> None:
    assert 0 < answers("lake", style, 2)[0] < COUNT


@pytest.mark.parametrize("style", ["chat", "table"])
@pytest.mark.parametrize("count", [500, pytest.param(COUNT, marks=pytest.mark.slow)])
def test_lessons_stand_spoilt_answers(style: str, count: int) -> None:
    assert 0 < answers("engineering", style, 3, count)[0] < count
