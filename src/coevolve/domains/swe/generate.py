"""Tasks from knobs: faults that tests notice, drawn from repositories."""

import json
import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from coevolve.core.errors import UserError
from coevolve.core.seeds import derive, digest
from coevolve.core.splits import Split, split_of
from coevolve.core.task import Task
from coevolve.domains.knobs import Knobs
from coevolve.domains.swe.faults import KINDS, Fault, disjoint
from coevolve.domains.swe.issue import issue
from coevolve.domains.swe.knobs import MOST_FAULTS, MOST_HINTS
from coevolve.domains.swe.notice import drawn_from, noticed
from coevolve.domains.swe.repository import SIZES, Repository, repository
from coevolve.domains.swe.work import Work, bucket_of

AHEAD = 16
"""Tasks that are made before the first of them is asked for."""


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
    kind = pick(rng, {name: values[f"{name}.share"] for name in KINDS})
    size = pick(rng, {name: values[f"{name}.share"] for name in SIZES})
    count = 1 + draws(rng, values["faults.mean"] - 1, MOST_FAULTS - 1)
    hint = draws(rng, values["hint.mean"], MOST_HINTS)
    history = rng.random() < values["history.share"]
    for known, fault in choices(rng, values, kind, size, split, repositories):
        if noticed(known.name, fault).fail:
            faults = [fault, *further(rng, values, split, known, fault, count - 1)]
            return task_of(known, faults, hint, int(values["turns.limit"]), history, seed)
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
        kind = pick(rng, {name: values[f"{name}.share"] for name in KINDS})
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


def task_of(
    known: Repository, faults: list[Fault], hint: int, turns: int, history: bool, seed: int
) -> Task:
    """The task that some faults make."""
    seen = [noticed(known.name, fault) for fault in faults]
    work = Work(
        source=known.name,
        content=known.content,
        faults=tuple(faults),
        fail=tuple(sorted({name for one in seen for name in one.fail})),
        seen=tuple(one.message for one in seen),
        hint=hint,
        turns=turns,
        history=history,
    )
    return make(work, seed)


def make(work: Work, seed: int) -> Task:
    """A task around its data."""
    data = work.model_copy(update={"issue": issue(work)}).model_dump(mode="json")
    return Task.model_construct(
        id="swe-" + digest(json.dumps(data, sort_keys=True), size=8).hex(),
        domain="swe",
        split=split_of(fingerprint(work)),
        seed=seed,
        bucket=bucket_of(work),
        data=data,
    )


def fingerprint(work: Work) -> int:
    """The least of the places of a task's faults, which are all of one split, stands for them."""
    package = repository(work.source).source.package
    return min(fault.place(package) for fault in work.faults)


def pick(rng: random.Random, shares: dict[str, float]) -> str:
    return rng.choices(list(shares), list(shares.values()))[0]


def draws(rng: random.Random, mean: float, most: int) -> int:
    """A number from 0 to `most` with this mean."""
    return sum(rng.random() < mean / most for _ in range(most))
