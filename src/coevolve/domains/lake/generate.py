"""Certified tasks from knobs, in one process or several: the same tasks; and what they are like."""

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from coevolve.core.errors import KnobError
from coevolve.core.seeds import derive_all, digest
from coevolve.core.splits import Split, share_of
from coevolve.core.task import Label, Task
from coevolve.domains.base import Statistic, mean
from coevolve.domains.chunks import in_chunks
from coevolve.domains.knobs import Knobs
from coevolve.domains.lake import sample
from coevolve.domains.lake.board import HOLE
from coevolve.domains.lake.compile import announce
from coevolve.domains.lake.knobs import AGENTS, SIZES, SPACE
from coevolve.domains.lake.sample import Batch, Draws, make_batch

CHUNK = 2_048
"""Tasks made at a time; so many are made before a worker process has begun."""
ATTEMPTS = 2_000
"""Boards drawn for one task at a time; `find` says how often before it counts as impossible."""


def generate(
    knobs: Knobs, count: int, seed: int, split: Split, workers: int = 1, chunk: int = CHUNK
) -> Iterator[Task]:
    """Tasks drawn from `knobs`, in order; a smaller count gives the beginning of a larger one.

    They are made `chunk` at a time; neither that nor the number of workers changes them.
    """
    values = dict(knobs)
    announce("sample")
    if workers > 1 and count > chunk:
        make_chunk(values, seed, split, 0, 1)  # compiles once; the workers find it cached
    yield from in_chunks(partial(make_chunk, values, seed, split), count, workers, chunk)


def make_chunk(
    values: dict[str, float], seed: int, split: Split, begin: int, end: int
) -> list[Task]:
    """The tasks number begin to end - 1."""
    seeds = derive_all(seed, "lake", split.value, ends=((index,) for index in range(begin, end)))
    draws = make_draws(values, split)
    batch = make_batch(len(seeds), int(draws.sizes[-1]))
    sample.sample(draws, np.array(seeds, np.uint64), batch)
    for index in range(len(seeds)):
        if not batch.facts[index, sample.DONE]:
            raise KnobError(impossible(values, batch, index, split))
    with uncollected():
        return make_tasks(batch, seeds, split)


@contextmanager
def uncollected() -> Iterator[None]:
    """Keep the garbage collector from looking, again and again, through what is still in use."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def make_draws(values: dict[str, float], split: Split) -> Draws:
    sizes = [size for size in SIZES if values[f"size{size}.data_ratio"] > 0]

    def column(name: str) -> list[float]:
        return [values[f"size{size}.{name}"] for size in sizes]

    limits = [
        values["path_length.min"],
        values["path_length.max"],
        values["detour.min"],
        values["detour.max"],
        *share_of(split),
        ATTEMPTS,
    ]
    return Draws(
        np.array(sizes, np.int64),
        np.cumsum(column("data_ratio")),
        np.array(column("hole_ratio")),
        np.array(column("wait_ratio")),
        np.cumsum([values[f"agents{k}.share"] for k in AGENTS]),
        np.array(limits, np.int64),
    )


def impossible(values: dict[str, float], batch: Batch, index: int, split: Split) -> str:
    """Why no board was found for a request, with the nearest value that would do."""
    facts = batch.facts[index]
    size, agents, holes = facts[sample.SIZE], facts[sample.AGENTS], facts[sample.HOLES]
    wait = "needing a wait" if facts[sample.WAIT] else "needing no wait"
    bucket = f"{size}x{size}, {agents} agents, {holes} holes, {wait}, split {split}"
    tries = f"no such board in {facts[sample.ATTEMPTS]} tries"
    if facts[sample.LONGEST] < values["path_length.min"]:
        return (
            f"path_length.min = {values['path_length.min']:g} cannot be met ({bucket}): {tries}; "
            f"the longest distance seen was {facts[sample.LONGEST]}: use path_length.min = "
            f"{max(1, facts[sample.LONGEST] // 2)} or less, or set size{size}.data_ratio = 0"
        )
    if facts[sample.DETOUR] < values["detour.min"]:
        return (
            f"detour.min = {values['detour.min']:g} cannot be met ({bucket}): {tries}; the "
            f"greatest detour seen was {facts[sample.DETOUR]}: use that or less"
        )
    nearest = nearest_ratios(values, int(size), int(agents), bool(facts[sample.WAIT]), split)
    return f"these knobs cannot be met together ({bucket}): {tries}; {nearest}"


def nearest_ratios(
    values: dict[str, float], size: int, agents: int, wait: bool, split: Split
) -> str:
    """The nearest hole ratio at which such boards exist, by trying; or what else to change."""
    now = values[f"size{size}.hole_ratio"]
    others = (step / 20 for step in range(11) if abs(step / 20 - now) > 0.01)
    for ratio in sorted(others, key=lambda ratio: abs(ratio - now)):
        changes = {
            **{name: values[name] for name in values if "." in name and name.startswith("path_")},
            "detour.min": values["detour.min"],
            "detour.max": values["detour.max"],
            f"size{size}.data_ratio": 1.0,
            f"size{size}.hole_ratio": ratio,
            f"size{size}.wait_ratio": float(wait),
            f"agents{agents}.share": 1.0,
        }
        try:
            draws = make_draws(dict(SPACE.parse(changes)), split)
        except KnobError:
            continue
        batch = make_batch(4, size)
        sample.sample(draws, np.arange(1, 5).astype(np.uint64), batch)
        if batch.facts[:, sample.DONE].all():
            return f"size{size}.hole_ratio = {ratio:g} can"
    return f"set size{size}.wait_ratio = {0 if wait else 1}, or size{size}.data_ratio = 0"


def make_tasks(batch: Batch, seeds: list[int], split: Split) -> list[Task]:
    """Tasks from a filled batch. Its boards are certified, so nothing is checked again."""
    make = maker(
        Task.model_construct(id="", domain="lake", split=split, seed=0, bucket={}, data={})
    )
    longest = int(batch.lengths.max())
    rows, moves = batch.rows.tobytes().decode(), batch.moves[:, :, :longest].tobytes().decode()
    side = batch.rows.shape[1]
    columns = zip(
        range(len(seeds)),
        seeds,
        batch.facts.tolist(),
        batch.starts.tolist(),
        batch.goals.tolist(),
        batch.lengths.tolist(),
        batch.distances.tolist(),
        strict=True,
    )
    tasks = []
    for index, seed, facts, starts, goals, lengths, distances in columns:
        first_row, first_move = index * side * side, index * 8 * longest
        size, agents = facts[sample.SIZE], facts[sample.AGENTS]
        cost, wait = facts[sample.COST], bool(facts[sample.WAIT])
        data: dict[str, Any] = {
            "rows": [
                rows[first : first + size]
                for first in range(first_row, first_row + size * side, side)
            ],
            "starts": [[cell // size, cell % size] for cell in starts[:agents]],
            "goals": [[cell // size, cell % size] for cell in goals[:agents]],
            "cost": cost,
            "distances": distances[:agents],
            "needs_wait": wait,
            "plan": [
                moves[first_move + a * longest : first_move + a * longest + lengths[a]]
                for a in range(agents)
            ],
        }
        detour = cost - facts[sample.DISTANCE]
        bucket = bucket_of(size, agents, facts[sample.HOLES] / size**2, wait, detour)
        tasks.append(make(id=task_id(data), seed=seed, bucket=bucket, data=data))
    return tasks


def maker(blank: Task) -> Callable[..., Task]:
    """Makes copies of a task with other values, which are not checked, in no time."""
    common, named = dict(blank.__dict__), blank.__pydantic_fields_set__

    def make(**values: Any) -> Task:
        task = Task.__new__(Task)
        object.__setattr__(task, "__dict__", {**common, **values})
        object.__setattr__(task, "__pydantic_fields_set__", named)
        object.__setattr__(task, "__pydantic_extra__", None)
        object.__setattr__(task, "__pydantic_private__", None)
        return task

    return make


def task_id(data: dict[str, Any]) -> str:
    """A name that follows from the board alone."""
    # As Python writes these lists, which it does more slowly.
    starts, goals = (
        ", ".join([f"[{row}, {column}]" for row, column in data[name]])
        for name in ("starts", "goals")
    )
    rows = "', '".join(data["rows"])
    board = f"['{rows}'][{starts}][{goals}]"
    return "lake-" + digest(board, size=8).hex()


def bucket_of(
    size: int, agents: int, hole_share: float, wait: bool, detour: int
) -> dict[str, Label]:
    """The labels that results are grouped by; holes in steps of a tenth of the cells."""
    return {
        "size": size,
        "agents": agents,
        "holes": round(hole_share, 1),
        "wait": wait,
        "detour": detour,
    }


def hole_share(task: Task) -> float:
    rows = task.data["rows"]
    return float(sum(row.count(HOLE) for row in rows) / (len(rows) * len(rows[0])))


def measure(tasks: Sequence[Task]) -> dict[str, Statistic]:
    """For each knob that matters to these tasks, the statistic that it moves."""
    found: dict[str, Statistic] = {}
    for size in sorted({len(task.data["rows"]) for task in tasks}):
        members = [task for task in tasks if len(task.data["rows"]) == size]
        found[f"size{size}.data_ratio"] = Statistic(len(members) / len(tasks), len(tasks))
        found[f"size{size}.hole_ratio"] = mean([hole_share(task) for task in members])
        found[f"size{size}.wait_ratio"] = mean([task.data["needs_wait"] for task in members])
    for count, total in sorted(Counter(len(task.data["starts"]) for task in tasks).items()):
        found[f"agents{count}.share"] = Statistic(total / len(tasks), len(tasks))
    found["path_length.min"] = mean([min(task.data["distances"]) for task in tasks])
    found["path_length.max"] = mean([max(task.data["distances"]) for task in tasks])
    excess = [float(task.data["cost"] - sum(task.data["distances"])) for task in tasks]
    found["detour.min"] = found["detour.max"] = mean(excess)
    return found
