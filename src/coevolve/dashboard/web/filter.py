"""Looking through the rollouts of a run: filters, pages, and one rollout with its texts.

Invariant: what a reader typed is compared with values; no statement is ever made of it.
"""

import csv
import io
import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coevolve.core.errors import UserError
from coevolve.dashboard.web.table import Columns, Table
from coevolve.dashboard.web.texts import saying
from coevolve.evaluation.clusters import rate_by_task
from coevolve.evaluation.statistics import Rate
from coevolve.store.rollouts import read_row

PAGE = 50
MOST_LINES = 200_000
"""Of a CSV file."""
SEARCH_S = 5.0
"""For reading files that nobody has searched for words yet; asked again, a page goes on."""
MOST_MEMBERS = 64
"""Of a group that are listed."""
SOURCES = {
    "train": "drawn in training", "dev": "measured, shown to engineers",
    "probe": "probed under other knobs", "gate": "judged, hidden from engineers",
    "test": "measured once, at the end",
}  # fmt: skip
ORDERS = ("version", "step", "reward", "tokens")
"""Columns to sort by; with a minus the greatest first."""
LABEL = "label."
"""Begins the name of a filter by a label of the task."""


class Filter(NamedTuple):
    """What a reader wants to see."""

    version: int | None = None
    source: str = ""
    failure: str = ""
    """A failure class; `valid` for none, `failed` for any."""
    least: float | None = None
    most: float | None = None
    task: str = ""
    text: str = ""
    """Words that occur in one of the messages."""
    order: str = ""
    """Empty: as they were drawn."""
    labels: tuple[tuple[str, str], ...] = ()
    page: int = 1

    def as_query(self) -> dict[str, str]:
        """The filter as an address has it, without the page."""
        found: dict[str, str] = {
            name: str(value)
            for name, value in self._asdict().items()
            if name not in ("labels", "page") and value not in (None, "")
        }
        return found | {f"{LABEL}{name}": value for name, value in self.labels}


class Found(NamedTuple):
    """A page of rollouts, and the sum of all that the filter lets through."""

    n: int
    valid: Rate
    reward: float | None
    failures: list[tuple[str, int]]
    rows: list[dict[str, Any]]
    pages: int
    unread: int = 0
    """Rollouts whose texts there was no time to look through."""


def filter_of(query: Mapping[str, str]) -> Filter:
    """What an address asks for; what cannot be read is an error that names it."""
    source, order = query.get("source", ""), query.get("order", "")
    if source and source not in SOURCES:
        raise UserError(f"unknown source '{source}'; take one of {', '.join(SOURCES)}")
    if order and order.removeprefix("-") not in ORDERS:
        raise UserError(
            f"unknown order '{order}'; take one of {', '.join(ORDERS)}, or -{ORDERS[0]}"
        )
    labels = tuple(
        sorted(
            (name.removeprefix(LABEL), value)
            for name, value in query.items()
            if name.startswith(LABEL) and value
        )
    )
    return Filter(
        whole(query, "version"), source, query.get("failure", ""), number(query, "least"),
        number(query, "most"), query.get("task", "").strip(), query.get("text", "").strip(), order,
        labels, max(1, whole(query, "page") or 1),
    )  # fmt: skip


def whole(query: Mapping[str, str], name: str) -> int | None:
    found = number(query, name, int, "a whole number")
    return None if found is None else max(-(10**9), min(10**9, int(found)))


def number(
    query: Mapping[str, str], name: str, kind: type[float] = float, words: str = "a number"
) -> float | None:
    text = query.get(name, "").strip()
    try:
        return kind(text) if text else None
    except ValueError:
        raise UserError(f"{name} is {text!r:.40}; give {words}") from None


def chosen_of(
    table: Table, columns: Columns, chosen: Filter, most_s: float
) -> tuple[NDArray[np.int64], int]:
    """The places of all rollouts that a filter lets through, in the order it asks for, and how many
    there was no time to look through."""
    mask = np.ones(len(columns.file), np.bool_)
    if chosen.version is not None:
        mask &= columns.version == chosen.version
    if chosen.source:
        mask &= columns.source.equal(chosen.source)
    if chosen.failure in ("valid", "failed"):
        mask &= columns.valid == (chosen.failure == "valid")
    elif chosen.failure:
        mask &= columns.failure.equal(chosen.failure)
    if chosen.least is not None:
        mask &= columns.reward >= np.float32(chosen.least)
    if chosen.most is not None:
        mask &= columns.reward <= np.float32(chosen.most)
    if chosen.labels:
        allowed = [
            all(str(own.get(name)) == value for name, value in chosen.labels)
            for own in columns.labels
        ]
        mask &= np.array(allowed, np.bool_)[columns.bucket]
    if chosen.task:
        from pyarrow import compute

        mask &= compute.starts_with(columns.task_id, chosen.task).to_numpy()
    places = np.flatnonzero(mask)
    unread = 0
    if chosen.text:
        candidates = len(places)
        places, seen = saying(table, columns, places, chosen.text, most_s)
        unread = candidates - seen
    if not chosen.order:
        return places, unread
    values = getattr(columns, chosen.order.removeprefix("-"))[places]
    signed = -values if chosen.order.startswith("-") else values
    return places[np.argsort(signed, kind="stable")], unread


def find(table: Table, chosen: Filter) -> Found:
    """The rollouts that a filter lets through, a page of them."""
    columns = table.columns()
    places, unread = chosen_of(table, columns, chosen, SEARCH_S)
    n = len(places)
    pages = max(1, -(-n // PAGE))
    first = (min(chosen.page, pages) - 1) * PAGE
    codes = columns.failure.codes[places]
    counts = np.bincount(codes[codes >= 0], minlength=len(columns.failure.words))
    failures = [
        pair for pair in zip(columns.failure.words, counts.tolist(), strict=True) if pair[1]
    ]
    failures.sort(key=lambda pair: (-pair[1], pair[0]))
    reward = float(columns.reward[places].mean(dtype=np.float64)) if n else None
    rows = [row_of(table, columns, int(at)) for at in places[first : first + PAGE]]
    return Found(n, valid_of(columns, places), reward, failures, rows, pages, unread)


def valid_of(columns: Columns, places: NDArray[np.int64]) -> Rate:
    """The share of valid rollouts, with the interval over tasks."""
    tasks = columns.task[places]
    tried = np.bincount(tasks)
    right = np.bincount(tasks[columns.valid[places]], minlength=len(tried))
    return rate_by_task(right[tried > 0], tried[tried > 0])


def id_of(table: Table, columns: Columns, at: int) -> str:
    """What a rollout is called in addresses: its file and row."""
    return f"{table.names[int(columns.file[at])]}/{columns.row[at]}"


def row_of(table: Table, columns: Columns, at: int) -> dict[str, Any]:
    """A line of the list."""
    same = ("version", "step", "sample", "valid", "optimal", "tokens")
    return {
        "id": id_of(table, columns, at),
        **{name: getattr(columns, name)[at].item() for name in same},
        **{name: getattr(columns, name).at(at) for name in ("source", "failure", "stop")},
        "task_id": columns.task_id[at].as_py(),
        "labels": columns.labels[int(columns.bucket[at])],
        "reward": round(float(columns.reward[at]), 6),
    }


def in_csv(table: Table, chosen: Filter) -> bytes:
    """All rollouts that a filter lets through, as a table with a column for each label."""
    columns = table.columns()
    places, _ = chosen_of(table, columns, chosen, math.inf)
    rows = [row_of(table, columns, int(at)) for at in places[:MOST_LINES]]
    labels = sorted({name for row in rows for name in row["labels"]})
    text = io.StringIO()
    writer = csv.writer(text)
    names = [name for name in rows[0] if name != "labels"] if rows else []
    writer.writerow([*names, *labels])
    for row in rows:
        values = [row[name] for name in names] + [row["labels"].get(name) for name in labels]
        writer.writerow([harmless(value) for value in values])
    return text.getvalue().encode("utf-8", "replace")


def harmless(value: object) -> object:
    """A value that no spreadsheet takes for a formula."""
    formula = isinstance(value, str) and value[:1] in ("=", "+", "-", "@")
    return f"'{value}" if formula else value


def choices(table: Table) -> dict[str, Any]:
    """What filters can be set to."""
    columns = table.columns()
    labels: dict[str, set[str]] = {}
    for own in columns.labels:
        for name, value in own.items():
            labels.setdefault(name, set()).add(str(value))
    return {
        "versions": np.unique(columns.version).tolist(),
        "sources": [source for source in SOURCES if source in columns.source.words],
        "failures": sorted(columns.failure.words),
        "labels": {name: sorted(values, key=natural) for name, values in sorted(labels.items())},
    }


def natural(text: str) -> tuple[int, float, str]:
    """Numbers in numeric order, before words."""
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text


def one(table: Table, name: str, chosen: Filter) -> dict[str, Any] | None:
    """All that is stored of a rollout, with its neighbours among those that a filter lets through;
    None if there is none of this name."""
    import pyarrow

    place, _, row = name.rpartition("/")
    if place not in table.files or not row.isdecimal() or len(row) > 9:
        return None
    number, path = table.files[place]
    columns = table.columns()
    at = columns.place(number, int(row))
    if at is None:
        return None
    try:
        values = read_row(path, int(row))
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise UserError(f"{place}.parquet: {' '.join(str(error).split())[:200]}") from None
    same = (columns.version == columns.version[at]) & (columns.group == columns.group[at])
    same &= columns.source.codes == columns.source.codes[at]
    members = [row_of(table, columns, int(other)) for other in np.flatnonzero(same)[:MOST_MEMBERS]]
    beside = np.flatnonzero((columns.task == columns.task[at]) & ~same)[:MOST_MEMBERS]
    if chosen == Filter():
        chosen = Filter(int(columns.version[at]), columns.source.at(at) or "")
    through, _ = chosen_of(table, columns, chosen, SEARCH_S)
    found = np.flatnonzero(through == at)
    rank = int(found[0]) if len(found) else -1

    def neighbour(other: int) -> str | None:
        there = rank >= 0 and 0 <= other < len(through)
        return id_of(table, columns, int(through[other])) if there else None

    return {
        "id": name,
        "version": int(columns.version[at]),
        "source": columns.source.at(at),
        **values,
        "bucket": dict(values["bucket"]),
        "components": dict(values["components"]),
        "details": json.loads(values["details"] or "{}"),
        "group_members": members,
        "elsewhere": [row_of(table, columns, int(other)) for other in beside],
        "before": neighbour(rank - 1),
        "after": neighbour(rank + 1),
        "place": rank + 1,
        "n": len(through),
    }
