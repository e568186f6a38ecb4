"""A data set as a domain: `data:FILE?judge=math&labels=level`; shares of labels are its knobs.

    data:problems.jsonl                      a judge that fits, labels made from length
    data:FOLDER?judge=choice&labels=subject  files of a folder, by subject
    data:hf:openai/gsm8k:main:train          a data set of the hub
    data:rows.csv?judge=mine.py&question=ask&answer=key

Invariant: a task is a row; its family of near-duplicates decides its split.
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from math import isclose
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import coevolve
from coevolve.core.errors import CoevolveError, KnobError, UserError
from coevolve.core.rollout import Message, Outcome
from coevolve.core.seeds import derive, digest
from coevolve.core.splits import Split, split_of
from coevolve.core.task import Label, Task, whole_task
from coevolve.domains.base import Domain, Script, Statistic, mean
from coevolve.domains.check import Counts
from coevolve.domains.data.cache import cached, keep, recall
from coevolve.domains.data.judges import QUESTIONS, ChoiceJudge, ModelJudge, field, judge_of, likely
from coevolve.domains.data.kin import mark_of, marks_of
from coevolve.domains.data.labels import knob_name, labels_of, space_of
from coevolve.domains.data.rows import Row, rows_in
from coevolve.domains.hub import PREFIX
from coevolve.domains.knobs import Knobs
from coevolve.domains.registry import read_options
from coevolve.domains.simple import measured, silent
from coevolve.evaluation.judge import each

COLUMNS: tuple[str, ...] = ("question", "answer", "choices")
MOST_TOLD = 10
"""Rows with faults that an error names."""
SKIP = "skip"
"""What may be done with rows that have faults."""
OPTIONS = ("judge", "labels", *COLUMNS, "rates", "faults", "rows")
KEYS = ("answer", "check", "tests")
"""Of the data of a task: what decides whether an answer is right."""
LEAST = 4
"""Rows of each split, below which a data set is too small."""


class Entry(NamedTuple):
    """A row that was read."""

    data: dict[str, Any]
    """As its judge wants it."""
    labels: dict[str, Label]
    mark: int


class Opened(NamedTuple):
    """A data set that was read."""

    judge: Domain
    entries: list[Entry]
    mark: str
    """Of all its rows."""
    left_out: str
    """How many rows, in words."""


class DataDomain:
    """Implements the `Domain` protocol."""

    def __init__(self, text: str) -> None:
        place, _, query = text.partition("?")
        options = {name: str(value) for name, value in read_options(query).items()}
        if unknown := sorted(set(options) - set(OPTIONS)):
            raise UserError(
                f"data:{text}: there is no option '{unknown[0]}'; there are {', '.join(OPTIONS)}"
            )
        if options.get("faults", SKIP) != SKIP:
            raise UserError(f"data:{text}: rows with faults can only be left out: faults={SKIP}")
        if not place.startswith(PREFIX):
            path = Path(place).expanduser()
            if not path.exists():
                raise UserError(f"data:{text}: there is no file or folder {place}")
            place = str(path.resolve())
        for name, value in options.items():  # files, as they are found from anywhere
            if name == "rates" or (name == "judge" and value.endswith(".py")):
                options[name] = str(Path(value).resolve())
        known = options.pop("rows", "")
        found = opened(place, tuple(sorted(options.items())))
        if known not in ("", found.mark):
            raise UserError(
                f"{place} has other rows than when this began (rows={known}, now {found.mark}): "
                "put the file back, or start a new run"
            )
        self.text = f"{place}?{urlencode({**options, 'rows': found.mark}, safe='/:,')}"
        self.name = f"data:{self.text}"
        self.judge, self.entries = found.judge, found.entries
        self.buckets = tuple(self.entries[0].labels)
        self.space = space_of([entry.labels for entry in self.entries])
        self.by_split: dict[Split, list[Task]] = {split: [] for split in Split}
        for entry in self.entries:
            task = self.as_task(entry)
            self.by_split[task.split].append(task)
        few = min(map(len, self.by_split.values()))
        if few < LEAST:
            raise UserError(
                f"{self.name}: {len(self.entries)} rows are too few: about a sixth of them goes to "
                f"each of dev, gate and test, rows that are almost the same together, and one of "
                f"these has {few}; it needs {LEAST}"
            )
        every, quarter = Counts(*(min(n, few) for n in Counts())), max(2, few // 4)
        self.counts = every._replace(pushed=min(Counts().pushed, quarter))
        parts = ", ".join(f"{split} {len(tasks):,}" for split, tasks in self.by_split.items())
        self.summary = (
            f"{len(self.entries):,} rows of {Path(place).name} ({parts}), judge {self.judge.name}"
            f"{found.left_out}"
        )

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return DataDomain, (self.text,)

    @property
    def failures(self) -> Mapping[str, str]:
        return self.judge.failures

    @property
    def components(self) -> Mapping[str, str]:
        return self.judge.components

    @property
    def styles(self) -> tuple[str, ...]:
        return self.judge.styles

    @property
    def panels(self) -> tuple[str, ...]:
        return self.buckets

    @property
    def full_reward(self) -> float:
        return self.judge.full_reward

    @property
    def scripts(self) -> Mapping[str, Script]:
        return {"oracle": lambda task, _rng, style: self.oracle(task, style), "silent": silent}

    @property
    def suites(self) -> Mapping[str, Callable[[], Iterator[Task]]]:
        return {}

    @property
    def waits(self) -> bool:
        return bool(getattr(self.judge, "waits", False))

    def as_task(self, entry: Entry, seed: int = 0) -> Task:
        return Task(
            id=f"data-{digest(repr(sorted(entry.data.items())), size=8).hex()}",
            domain=self.name,
            split=split_of(entry.mark),
            seed=seed,
            bucket=entry.labels,
            data={**entry.data, "mark": entry.mark},
        )

    def generate(
        self, knobs: Knobs, count: int, seed: int, split: Split, workers: int = 1
    ) -> Iterator[Task]:
        """Rows by the shares of their labels; when all of a kind were drawn, they come again. With
        the shares of the data all rows are of one kind."""
        kinds: dict[tuple[Label, ...], list[Task]] = {}
        for task in self.by_split[split]:
            kinds.setdefault(tuple(task.bucket.values()), []).append(task)
        weights = {kind: self.weight(kind, len(own), knobs) for kind, own in kinds.items()}
        if count and not any(weights.values()):
            raise KnobError(f"{self.name} has no rows with these labels in '{split}'")
        if all(isclose(weights[kind], len(own)) for kind, own in kinds.items()):
            kinds, weights = {(): self.by_split[split]}, {(): 1.0}
        rng = random.Random(derive(seed, "data", split.value))
        waiting: dict[tuple[Label, ...], list[Task]] = {}
        names, shares = list(weights), list(weights.values())
        for _ in range(count):
            kind = rng.choices(names, shares)[0]
            if not waiting.get(kind):
                waiting[kind] = rng.sample(kinds[kind], len(kinds[kind]))
            yield waiting[kind].pop().model_copy(update={"seed": rng.getrandbits(31)})

    def weight(self, kind: tuple[Label, ...], rows: int, knobs: Knobs) -> float:
        """How often a kind of rows comes: as often as there are any, times how much more of each
        of its labels is asked for than there is."""
        found = float(rows)
        for label, value in zip(self.buckets, kind, strict=True):
            knob = self.space.knobs.get(knob_name(label, value))
            if knob:
                found *= knobs[knob.name] / knob.default if knob.default else 0.0
        return found

    def tasks_in(self, split: Split) -> int:
        return len(self.by_split[split])

    def prompt(self, task: Task, style: str = "") -> tuple[Message, ...]:
        return self.judge.prompt(task, style)

    def verify(self, task: Task, text: str, tokens: int | None = None) -> Outcome:
        return self.judge.verify(task, text, tokens)

    def oracle(self, task: Task, style: str = "") -> str:
        return self.judge.oracle(task, style)

    def fingerprint(self, task: Task) -> int:
        return int(task.data["mark"])

    def statistics(self, tasks: Sequence[Task]) -> dict[str, Statistic]:
        knobs = self.space.knobs.values() if tasks else ()
        return {
            knob.name: mean([measured(task, knob.name, knob.label) for task in tasks])
            for knob in knobs
        }

    def solve(self, data: Mapping[str, Any]) -> dict[str, Any]:
        return {"answer": self.oracle(self.load(data))}

    def draw(self, task: Task, text: str | None = None) -> str:
        return self.judge.draw(task, text)

    def picture(self, task: Task, text: str | None, path: Path) -> None:
        self.judge.picture(task, text, path)

    def load(self, data: Mapping[str, Any]) -> Task:
        """A task of this data set, whole, or a row like those in it."""
        if "data" in data and "split" in data:
            given = whole_task(data, self.name)
            if given.id not in self.by_id:
                raise UserError(f"{self.name} has no row with the id {given.id}")
            return self.by_id[given.id].model_copy(update={"seed": given.seed})
        made = self.judge.load(data)
        own = mark_of(self.judge.prompt(made)[-1].content)
        like = self.by_words.get(own)
        labels = dict(like.bucket) if like else dict(self.entries[0].labels)
        return self.as_task(Entry(made.data, labels, self.fingerprint(like) if like else own))

    @cached_property
    def by_id(self) -> dict[str, Task]:
        return {task.id: task for task in self.tasks()}

    @cached_property
    def by_words(self) -> dict[int, Task]:
        return {mark_of(self.judge.prompt(one)[-1].content): one for one in self.tasks()}

    def tasks(self) -> Iterator[Task]:
        for tasks in self.by_split.values():
            yield from tasks


def stamp_of(place: str) -> object:
    """What changes when files do."""
    if place.startswith(PREFIX):
        return place
    path = Path(place)
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return tuple((str(one), one.stat().st_mtime_ns, one.stat().st_size) for one in files)


def opened(place: str, options: tuple[tuple[str, str], ...]) -> Opened:
    judge = dict(options).get("judge", "")
    own = stamp_of(judge) if judge.endswith(".py") and Path(judge).is_file() else None
    return read(place, options, (stamp_of(place), own))


@lru_cache(maxsize=4)
def read(place: str, options: tuple[tuple[str, str], ...], stamp: object) -> Opened:
    """The judge of a data set, and its rows with their labels and families."""
    chosen = dict(options)
    every = rows_in(place)
    if not every:
        raise UserError(f"{place} has no rows")
    rows = [(where, row) for where, row in every if not isinstance(row, UserError)]
    if not rows:
        raise next(row for _, row in every if isinstance(row, UserError))
    content = json.dumps([row for _, row in rows], default=str, sort_keys=True)
    columns = {name: chosen[name] for name in COLUMNS if name in chosen}
    name, in_words = chosen.get("judge", ""), dict[str, str]()
    if not name:
        name, in_words = likely(rows, columns)
    judge, skip = judge_of(name, columns), "faults" in chosen
    if isinstance(judge, ChoiceJudge):
        judge.refuse_from_one(row for _, row in rows)
    found = loaded(judge, rows, columns, content, skip)
    by_place = {where: one for (where, _), one in zip(rows, found, strict=True)} | in_words
    found = [str(row) if isinstance(row, UserError) else by_place[where] for where, row in every]
    rows, tasks = without_faults(every, found, skip)
    questions = [judge.prompt(task)[-1].content for task in tasks]
    labels = labels_of(rows, tasks, questions, chosen)
    marks = marks_of(questions)
    seen: dict[str, Entry] = {}
    other: set[str] = set()
    for task, question, own, mark in zip(tasks, questions, labels, marks, strict=True):
        known = seen.setdefault(question, Entry(task.data, own, mark))
        if any(known.data.get(name) != task.data.get(name) for name in KEYS):
            other.add(question)
    entries = [entry for question, entry in seen.items() if question not in other]
    twice = sum(question in other for question in questions)
    again = len(rows) - len(entries) - twice
    counts = {
        "with faults": len(found) - len(rows),
        "repeated": again,
        "that contradict each other": twice,
    }
    words = [f"{count:,} {what}" for what, count in counts.items() if count]
    left_out = f"; left out: {', '.join(words)}" if words else ""
    if not entries:
        raise UserError(f"{place}: no rows are left{left_out}")
    # A letter first, so that no mark is read as a number.
    return Opened(judge, entries, f"r{digest(content, size=4).hex()}", left_out)


def loaded(
    judge: Domain, rows: Sequence[tuple[str, Row]], columns: Mapping[str, str], content: str,
    skip: bool,
) -> list[Task | str]:  # fmt: skip
    """Every row as its judge reads it, or what is wrong with it. Where reading means running its
    tests, it is done once; again for rows with faults, unless these are left out."""

    def one(pair: tuple[str, Row]) -> Task | str:
        where, row = pair
        try:
            return judge.load(renamed(row, columns))
        except CoevolveError as error:
            return f"{where}: {error}"

    if not getattr(judge, "waits", False) or judge.name == ModelJudge.name:
        return [one(row) for row in rows]
    more = [SKIP] if skip else []
    file = cached(coevolve.__version__, judge.name, str(columns), content, *more)
    if (known := recall(file)) is not None:
        return [one if isinstance(one, str) else Task.model_validate(one) for one in known]
    found = each([judge], one, rows)
    good = [isinstance(one, Task) for one in found]
    if all(good) or (skip and any(good)):
        keep(file, [one if isinstance(one, str) else one.model_dump(mode="json") for one in found])
    return found


def without_faults(
    rows: Sequence[tuple[str, Row | UserError]], found: Sequence[Task | str], skip: bool
) -> tuple[list[tuple[str, Row]], list[Task]]:
    """The rows that could be read, and their tasks. Others are an error, unless they are left out:
    what is wrong with the first of them, and which they are."""
    wrong = [one for one in found if isinstance(one, str)]
    if wrong and (not skip or len(wrong) == len(rows)):
        places = ", ".join(one.partition(": ")[0].rpartition(", ")[2] for one in wrong[:MOST_TOLD])
        others = f" and {len(wrong) - MOST_TOLD:,} more" if wrong[MOST_TOLD:] else ""
        way = f"; data:FILE?faults={SKIP} leaves such rows out" if len(wrong) < len(rows) else ""
        raise UserError(
            f"{wrong[0]} (faults in {len(wrong):,} of {len(rows):,} rows: {places}{others}{way})"
        )
    pairs = [
        (where, row, one)
        for (where, row), one in zip(rows, found, strict=True)
        if isinstance(one, Task) and not isinstance(row, UserError)
    ]
    return [(where, row) for where, row, _ in pairs], [task for *_, task in pairs]


def renamed(row: Row, columns: Mapping[str, str]) -> Row:
    """A row with the columns that are named under the names that every judge knows."""
    found = {name: value for name, value in row.items() if name != "id"}
    for name in columns.keys() & {"question", "answer"}:
        found[name] = field(row, (), columns[name], name)
    return found


def members() -> list[str]:
    raise UserError(f"a data set is named by its file: data:FILE; {', '.join(QUESTIONS[:3])} and "
                    "the answer are found by their usual names")  # fmt: skip
