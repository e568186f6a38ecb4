"""What is said of a training: by its first step, and at its end whether it moved what it is paid
for."""

import re

import pytest

from coevolve.engines.base import Progress
from coevolve.engines.stage import Line, doubt, learned


def steps(*values: float, **more: float) -> list[Line]:
    return [{"step": n + 1, "valid": value, **more} for n, value in enumerate(values)]


RISING = [0.2, 0.22, 0.21, 0.25, 0.3, 0.33, 0.4, 0.42, 0.41]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (steps(*RISING), r"It learned: in training the valid rate went from 0\.210 to 0\.410"),
        (steps(*reversed(RISING)), "It became worse"),
        (steps(*([0.2, 0.3] * 6)), "No clear change"),
        (steps(*([0.25] * 9)), r"No change: the valid rate was 0\.25 throughout"),
        (steps(*RISING, dead=0.97), "It could not learn: in 97% of the groups"),
        (steps(0.1, 0.2, 0.3), r"Too few steps to tell whether it learned \(3\)"),
        ([{"step": n, "reward": value} for n, value in enumerate(RISING)], "mean reward went"),
    ],
)
def test_the_end_of_a_training_is_told(lines: list[Line], words: str) -> None:
    assert re.search(words, learned(lines))


@pytest.mark.parametrize("lines", [[], [{"step": 1, "loss": 0.5}] * 9])
def test_nothing_is_said_of_what_nobody_measured(lines: list[Line]) -> None:
    assert learned(lines) == ""


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ({"dead": 1.0, "valid": 0.0, "cut": 0.1}, "none is right; show the policy solved tasks"),
        ({"dead": 1.0, "valid": 1.0}, "all are right; take harder tasks"),
        ({"dead": 1.0, "valid": 0.5}, "draw larger groups"),
        ({"dead": 1.0, "valid": 0.0, "cut": 0.9}, "90% of the answers are cut off"),
        ({"dead": 0.9, "valid": 0.0}, ""),
        ({"loss": 0.3}, ""),
    ],
)
def test_a_first_step_that_promises_nothing_is_told_of(
    metrics: dict[str, float], words: str
) -> None:
    said = doubt(Progress(1, 20, metrics, 60.0))
    assert words in said if words else not said
    assert not doubt(Progress(2, 20, metrics, 60.0))


def test_what_engineers_may_change_is_left_to_them() -> None:
    for valid, words in ((0.0, "may take easier tasks"), (1.0, "may take harder tasks")):
        said = doubt(Progress(1, 20, {"dead": 1.0, "valid": valid}, 60.0), redesigned=True)
        assert words in said
        assert "coevolve train warm" not in said
