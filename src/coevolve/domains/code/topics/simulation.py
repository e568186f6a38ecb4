"""Following rules step by step."""

import random
from typing import Any

from coevolve.domains.code.template import Argument, Template, ints, letters

TEXT = Argument("text", "text")


def people(rng: random.Random, size: int, kind: str, _p: Any) -> list[Any]:
    return [{"large": size, "edge": rng.randint(1, 3)}.get(kind, rng.randint(3, 4 * size))]


def automaton(rng: random.Random, size: int, kind: str, _p: Any) -> list[Any]:
    rounds = {"large": 200, "edge": rng.randint(0, 1)}.get(kind, rng.randint(1, 12))
    return [letters(rng, size, kind, "..#"), rounds]


TEMPLATES = (
    Template(
        name="counting_out",
        takes=(Argument("people", "int"),),
        draw=lambda rng: {"k": rng.randint(2, 30), "s": rng.randint(0, 9), "c": rng.randint(1, 9)},
        statement=(
            "People 0 to `people` - 1 stand in a circle. Counting begins at person 0 and every "
            "{k}-th person who is still there leaves (the first to leave is the {k}-th one "
            "counted), until one is left. The result is the number of that person, times {c}, "
            "plus {s}."
        ),
        reference="""\
def core(people):
    last = 0
    for count in range(2, people + 1):
        last = (last + <<k>>) % count
    return last * <<c>> + <<s>>
""",
        brute="""\
def core(people):
    circle = list(range(people))
    while len(circle) > 1:
        for _ in range(<<k>> - 1):
            circle.append(circle.pop(0))
        circle.pop(0)
    return circle[0] * <<c>> + <<s>>
""",
        inputs=people,
        large=300_000,
    ),
    Template(
        name="robot",
        takes=(TEXT,),
        draw=lambda rng: {
            "a": rng.randint(1, 9),
            "b": rng.randint(1, 9),
            "c": rng.randint(1, 9),
        },
        statement=(
            "A robot stands at the origin of a plane and looks along the positive y axis. It "
            "reads the text letter by letter: F moves it {a} forward, B moves it {b} backward, L "
            "and R turn it by 90 degrees to the left or right. The result is its distance from "
            "the origin at the end, as |x| + |y|, plus {c} times the greatest such distance at "
            "any time."
        ),
        reference="""\
def core(text):
    x = y = far = 0
    dx, dy = 0, 1
    for letter in text:
        if letter == "L":
            dx, dy = -dy, dx
        elif letter == "R":
            dx, dy = dy, -dx
        else:
            step = <<a>> if letter == "F" else -<<b>>
            x, y = x + step * dx, y + step * dy
            far = max(far, abs(x) + abs(y))
    return abs(x) + abs(y) + <<c>> * far
""",
        inputs=lambda rng, size, kind, p: [letters(rng, size, kind, "FFFBLR")],
        large=40_000,
    ),
    Template(
        name="round_robin",
        takes=(Argument("jobs", "ints"),),
        draw=lambda rng: {
            "q": rng.randint(1, 9),
            "c": rng.randint(0, 5),
            "m": rng.choice((997, 10_007)),
        },
        statement=(
            "Each number of `jobs` is the work that a job needs, in units of time. The jobs stand "
            "in a queue in this order. The first of the queue is worked on for {q} units, or "
            "fewer if less is left, and then {c} units are spent on changing over. A job with "
            "work left goes to the end of the queue. A job is finished when its last unit of work "
            "is done, before changing over. The result is the sum of the times at which the jobs "
            "are finished, modulo {m}."
        ),
        reference="""\
def core(jobs):
    from collections import deque

    queue, time, total = deque(jobs), 0, 0
    while queue:
        left = queue.popleft()
        spent = min(left, <<q>>)
        time += spent
        if left > spent:
            queue.append(left - spent)
        else:
            total += time
        time += <<c>>
    return total % <<m>>
""",
        brute="""\
def core(jobs):
    queue, time, total = list(jobs), 0, 0
    while queue:
        left, queue = queue[0], queue[1:]
        spent = min(left, <<q>>)
        time += spent
        if left > spent:
            queue = queue + [left - spent]
        else:
            total += time
        time += <<c>>
    return total % <<m>>
""",
        inputs=lambda rng, size, kind, p: [ints(rng, size, kind, 1, 30)],
        large=15_000,
        steps=False,
    ),
    Template(
        name="automaton",
        takes=(TEXT, Argument("rounds", "int")),
        draw=lambda rng: {"rule": rng.randrange(1, 255), "ring": rng.choice((True, False))},
        statement=(
            "The text is a row of cells, dead (`.`) or alive (`#`). In each round all cells "
            "change at once: with 1 for alive, a cell whose left neighbour, itself and right "
            "neighbour are l, s and r is alive afterwards exactly if the bit of value 2^(4l + 2s "
            "+ r) is set in {rule}. [ring:The row is a ring: its ends are neighbours|Beyond the "
            "ends all is dead]. The result is the number of live cells after `rounds` rounds, "
            "plus 1000 if the first cell is alive then."
        ),
        reference="""\
def core(text, rounds):
    row = [int(mark == "#") for mark in text]
    for _ in range(rounds):
        ends = (row[-1], row[0]) if <<ring>> else (0, 0)
        wide = [ends[0], *row, ends[1]]
        row = [
            <<rule>> >> (4 * wide[i] + 2 * wide[i + 1] + wide[i + 2]) & 1
            for i in range(len(row))
        ]
    return sum(row) + 1000 * row[0]
""",
        inputs=automaton,
        large=1_500,
    ),
)
