"""Tasks from knobs: faults that tests notice, drawn from repositories; and the benchmark."""

import os
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter

from coevolve.core.errors import UserError
from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.base import Statistic, means, shares_of
from coevolve.domains.knobs import Knobs, draws, pick
from coevolve.domains.simple import distinct, task_of
from coevolve.domains.swe.faults import KINDS, Fault, disjoint
from coevolve.domains.swe.knobs import MOST_FAULTS, MOST_HINTS, SPACE
from coevolve.domains.swe.notice import drawn_from, noticed
from coevolve.domains.swe.prompt import issue
from coevolve.domains.swe.repository import SIZES, Repository, repository
from coevolve.domains.swe.source import shipped
from coevolve.domains.swe.work import CALLS, SHOWN, Work, bucket_of, known_of

AHEAD = 16
"""Tasks that are made before the first of them is asked for."""
SEED = 2606_03108
TASKS = 60
"""Of the benchmark."""


def generate(
    knobs: Knobs, count: int, seed: int, split: Split, workers: int, sources: tuple[str, ...]
) -> Iterator[Task]:
    """Tasks drawn from `knobs`, in order; a smaller count gives the beginning of a larger one.

    Trying faults out is waiting for sandboxes, so workers are threads, and there are always some.
    """
    values = dict(knobs)
    seeds = [derive(seed, "swe", split.value, index) for index in range(count)]
    repositories = [repository(name) for name in sources]

    def make(one: int) -> Task:
        return make_task(values, one, split, repositories)

    threads = max(workers, os.cpu_count() or 1)
    with ThreadPoolExecutor(threads, "faults") as pool:
        for begin in range(0, count, AHEAD):
            yield from pool.map(make, seeds[begin : begin + AHEAD])


def make_task(
    values: dict[str, float], seed: int, split: Split, repositories: list[Repository]
) -> Task:
    """One task. What the knobs decide is drawn once, and only then what there is of it."""
    rng = random.Random(seed)
    kind, size = pick(rng, values, KINDS), pick(rng, values, SIZES)
    count = 1 + draws(rng, values["faults.mean"] - 1, MOST_FAULTS - 1)
    hint = draws(rng, values["hint.mean"], MOST_HINTS)
    history = rng.random() < values["history.share"]
    for known, fault in choices(rng, values, kind, size, split, repositories):
        if noticed(known.name, fault).fail:
            faults = [fault, *further(rng, values, split, known, fault, count - 1)]
            work = broken(known, faults, hint, history)
            limits = {name: int(values[f"{name}.limit"]) for name in ("turns", "calls", "shown")}
            return make(work.model_copy(update=limits), seed)
    names = ", ".join(known.name for known in repositories)
    raise UserError(f"no fault in the split '{split}' that tests notice in {names}; add sources")


def choices(
    rng: random.Random,
    values: dict[str, float],
    kind: str,
    size: str,
    split: Split,
    repositories: list[Repository],
) -> Iterator[tuple[Repository, Fault]]:
    """Faults to try: of the kind and size that were drawn, and, where repositories are so few that
    there is none, of the nearest sizes, and then of other kinds."""
    others = [name for name in KINDS if name != kind]
    rng.shuffle(others)
    others.sort(key=lambda name: values[f"{name}.share"] == 0)
    order = list(SIZES)
    sizes = sorted(order, key=lambda one: abs(order.index(one) - order.index(size)))
    for one in (kind, *others):
        for near in sizes:
            found = [
                (known, fault)
                for known in repositories
                if known.size == near
                for fault in drawn_from(known.name, one, split)
            ]
            rng.shuffle(found)
            yield from found


def further(
    rng: random.Random,
    values: dict[str, float],
    split: Split,
    known: Repository,
    first: Fault,
    count: int,
) -> list[Fault]:
    """More faults of the same repository, in other functions, if there are any."""
    found: list[Fault] = []
    for _ in range(count):
        away = rng.random() < values["spread.share"]
        kind = pick(rng, values, KINDS)
        choice = [
            fault
            for one in (kind, *KINDS)
            for fault in drawn_from(known.name, one, split)
            if disjoint([first, *found, fault])
        ]
        rng.shuffle(choice)
        choice.sort(key=lambda fault: (fault.path != first.path) != away)
        found += next(([fault] for fault in choice if noticed(known.name, fault).fail), [])
    return found


def broken(known: Repository, faults: list[Fault], hint: int, history: bool) -> Work:
    """What some faults make of a repository."""
    seen = [noticed(known.name, fault) for fault in faults]
    return Work(
        source=known.name,
        content=known.content,
        faults=tuple(faults),
        fail=tuple(sorted({name for one in seen for name in one.fail})),
        seen=tuple(one.message for one in seen),
        hint=hint,
        turns=1,
        history=history,
    )


def make(work: Work, seed: int, name: str = "") -> Task:
    """A task around its data, named after it unless it has a name."""
    data = work.model_copy(update={"issue": issue(work)}).model_dump(mode="json")
    return task_of("swe", data, fingerprint(work), bucket_of(work), seed, name)


def fingerprint(work: Work) -> int:
    """The place of a task's commit; of its faults, which are all of one split, the least stands
    for them."""
    package = known_of(work).source.package
    if work.commit is not None:
        return work.commit.place(package)
    return min(fault.place(package) for fault in work.faults)


def measure(tasks: Sequence[Task]) -> dict[str, Statistic]:
    """For each knob that matters to these tasks, the statistic that it moves."""
    return shares_of(tasks, "fault", "size") | means(
        {
            "faults.mean": [float(task.bucket["faults"]) for task in tasks],
            "hint.mean": [float(task.data["hint"]) for task in tasks],
            "turns.limit": [float(task.data["turns"]) for task in tasks],
            "calls.limit": [float(task.data.get("calls", CALLS)) for task in tasks],
            "shown.limit": [float(task.data.get("shown", SHOWN)) for task in tasks],
            "history.share": [float(task.data["history"]) for task in tasks],
            "spread.share": [away for task in tasks for away in spread(task)],
        }
    )


def spread(task: Task) -> list[float]:
    """For each further fault, whether it is in another file than the first."""
    faults = task.data["faults"]
    return [float(fault["path"] != faults[0]["path"]) for fault in faults[1:]]


def benchmark() -> Iterator[Task]:
    """Tasks in a fixed order, the same for everybody who has the same packages; none twice."""
    sources = tuple(source.name for source in shipped())
    seed = derive(SEED, "benchmark")
    made = generate(SPACE.defaults(), 4 * TASKS, seed, Split.TEST, 1, sources)
    return distinct(made, attrgetter("id"), TASKS)
