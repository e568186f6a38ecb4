"""Demonstrations for the pocket policy: lake tasks of the train split with their optimal plans,
and lessons in engineering with their best designs.

Invariant: the same count and seed give the same demonstrations, whatever the number of workers.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from coevolve.core.errors import UserError
from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.chunks import in_chunks
from coevolve.domains.knobs import Knobs
from coevolve.domains.lake.answer import walk
from coevolve.domains.lake.board import HOLE
from coevolve.domains.lake.generate import generate
from coevolve.domains.lake.knobs import SPACE
from coevolve.domains.registry import get_domain
from coevolve.pocket import Progress, Watch, arrays, silent
from coevolve.pocket.arrays import Demonstrations
from coevolve.pocket.vocabulary import END, SIDE, SIZES, words

T = TypeVar("T")

COUNT = 400_000
LESSONS = 60_000
CHUNK = 500
"""Lessons that a process makes at a time."""
AGENT_SHARES = {2: 0.4, 3: 0.25, 4: 0.2, 5: 0.15}
CROWDS = ((2, 3), (4, 5))
"""Asked for apart, because five agents would keep the holes few on the smallest boards of all."""
HOLE_RATIOS = (0.05, 0.15, 0.25, 0.35, 0.45)
WAIT_RATIO = 0.4
SAID_EVERY = 1_000
"""Tasks between two reports of progress."""


def make_demonstrations(
    count: int = COUNT,
    lessons: int = LESSONS,
    seed: int = 0,
    workers: int = 0,
    progress: Watch = silent,
) -> Demonstrations:
    """Demonstrations of `count` boards, less the very few whose plan does not fit into an array,
    and of so many lessons.

    `workers` is a number of processes, 0 for one per core.
    """
    if count < 1 or lessons < 0:
        raise UserError(f"{count} boards and {lessons} lessons cannot be made; ask for 1 or more")
    workers = workers or os.cpu_count() or 1
    boards = report(make_tasks(count, seed, workers), count, "demonstrations", progress)
    made = to_arrays(boards, count)
    taught = in_chunks(partial(some_lessons, seed), lessons, workers, CHUNK)
    return with_texts(made, report(taught, lessons, "lessons", progress), lessons)


def some_lessons(seed: int, first: int, end: int) -> list[tuple[list[int], int]]:
    """The lessons of one process: word ids, and how many of them are the prompt."""
    domain, ids = get_domain("engineering"), {word: id for id, word in enumerate(words())}
    found = []
    chosen = derive(seed, "lessons", first)
    for task in domain.generate(domain.space.defaults(), end - first, chosen, Split.TRAIN):
        prompt = domain.prompt(task, "table")[0].content.split()
        answer = domain.oracle(task, "table").split()
        found.append(([ids[word] for word in (*prompt, *answer)] + [END], len(prompt)))
    return found


def with_texts(
    made: Demonstrations, texts: Iterable[tuple[list[int], int]], count: int
) -> Demonstrations:
    """The boards together with texts."""
    room = arrays.empty(0, count)
    for place, (text, asked) in enumerate(texts):
        room.texts[place, : len(text)] = text
        room.asked[place] = asked
    return made._replace(texts=room.texts, asked=room.asked)


def make_tasks(count: int, seed: int, workers: int) -> Iterator[Task]:
    """The tasks to be shown, one mix of knobs after the other."""
    asked, wanted = 0, 0.0
    for crowd in CROWDS:
        for hole_ratio in HOLE_RATIOS:
            wanted += count * sum(AGENT_SHARES[agents] for agents in crowd) / len(HOLE_RATIOS)
            number = round(wanted) - asked  # of the running sum, so that all add up to count
            asked += number
            mix_seed = derive(seed, "demonstrations", crowd[0], round(100 * hole_ratio))
            knobs = make_knobs(crowd, hole_ratio)
            yield from generate(knobs, number, mix_seed, Split.TRAIN, workers)


def make_knobs(crowd: tuple[int, ...], hole_ratio: float) -> Knobs:
    """The nearest knobs that can exist: small boards have room for fewer holes."""
    changes = {f"agents{agents}.share": AGENT_SHARES[agents] for agents in crowd}
    changes |= {name: 0.0 for name in SPACE.groups["agents"] if name not in changes}
    for size in SIZES:
        changes[f"size{size}.data_ratio"] = 1 / len(SIZES)
        changes[f"size{size}.hole_ratio"] = hole_ratio
        changes[f"size{size}.wait_ratio"] = WAIT_RATIO
    return SPACE.project(changes)


def report(made: Iterable[T], total: int, what: str, progress: Watch) -> Iterator[T]:
    """Pass on what is made, saying now and then how much it was."""
    for done, one in enumerate(made, 1):
        yield one
        if done % SAID_EVERY == 0 or done == total:
            progress(Progress(what, done, total))


def to_arrays(tasks: Iterable[Task], count: int) -> Demonstrations:
    """At most `count` tasks as arrays, in order, without those that do not fit."""
    made = arrays.empty(count)
    kept = 0
    for task in tasks:
        kept += fill(made, kept, task.data)
    return made._replace(size=made.size[:kept], holes=made.holes[:kept], plan=made.plan[:kept])


def fill(made: Demonstrations, index: int, data: Mapping[str, Any]) -> bool:
    """Write one task to a place in the arrays; False, and nothing written, if it does not fit."""
    holes = [
        row * SIDE + column
        for row, marks in enumerate(data["rows"])
        for column, mark in enumerate(marks)
        if mark == HOLE
    ]
    paths = [
        [row * SIDE + column for row, column in walk(tuple(start), moves)]
        for start, moves in zip(data["starts"], data["plan"], strict=True)
    ]
    positions = max(len(path) for path in paths)
    if not 1 < positions <= arrays.POSITIONS or len(holes) > arrays.HOLES:
        return False
    made.size[index] = len(data["rows"])
    made.holes[index, : len(holes)] = holes
    for agent, path in enumerate(paths):
        made.plan[index, : len(path), agent] = path
        made.plan[index, len(path) : positions, agent] = path[-1]
    return True
