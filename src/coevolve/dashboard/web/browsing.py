"""Looking through the rollouts of a run: filters, pages, and one rollout with its texts.

Invariant: what a reader typed reaches the database as values, never as SQL.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from coevolve.core.errors import UserError
from coevolve.dashboard.web.counted import Counted
from coevolve.evaluation.statistics import Rate, wilson

PAGE = 50
SOURCES = {
    "train": "drawn in training", "dev": "measured, shown to engineers",
    "probe": "probed under other knobs", "gate": "judged, hidden from engineers",
}  # fmt: skip
ORDERS = {
    "": 'file, "row"',
    "reward": 'reward, file, "row"',
    "-reward": 'reward DESC, file, "row"',
    "-tokens": 'tokens DESC, file, "row"',
}
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
    order: str = ""
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


def filter_of(query: Mapping[str, str]) -> Filter:
    """What an address asks for; what cannot be read is an error that names it."""
    source, order = query.get("source", ""), query.get("order", "")
    if source and source not in SOURCES:
        raise UserError(f"unknown source '{source}'; take one of {', '.join(SOURCES)}")
    if order not in ORDERS:
        raise UserError(f"unknown order '{order}'; take one of {', '.join(filter(None, ORDERS))}")
    labels = tuple(
        sorted(
            (name.removeprefix(LABEL), value)
            for name, value in query.items()
            if name.startswith(LABEL) and value
        )
    )
    return Filter(
        whole(query, "version"), source, query.get("failure", ""), number(query, "least"),
        number(query, "most"), query.get("task", "").strip(), order, labels,
        max(1, whole(query, "page") or 1),
    )  # fmt: skip


def whole(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "").strip()
    if not text:
        return None
    try:
        return max(-(10**9), min(10**9, int(text)))
    except ValueError:
        raise UserError(f"{name} is {text!r:.40}; give a whole number") from None


def number(query: Mapping[str, str], name: str) -> float | None:
    text = query.get(name, "").strip()
    try:
        return float(text) if text else None
    except ValueError:
        raise UserError(f"{name} is {text!r:.40}; give a number") from None


def condition(chosen: Filter, labels: dict[int, dict[str, str]]) -> tuple[str, list[Any]]:
    """The filter as a condition, and its values."""
    parts, values = ["true"], []
    tests: tuple[tuple[str, Any], ...] = (
        ("version = ?", chosen.version), ("source = ?", chosen.source or None),
        ("reward >= ?", chosen.least), ("reward <= ?", chosen.most),
        ("starts_with(task_id, ?)", chosen.task or None),
    )  # fmt: skip
    for text, value in tests:
        if value is not None:
            parts.append(text)
            values.append(value)
    if chosen.failure in ("valid", "failed"):
        parts.append("valid" if chosen.failure == "valid" else "NOT valid")
    elif chosen.failure:
        parts.append("failure = ?")
        values.append(chosen.failure)
    if chosen.labels:
        wanted = [
            bucket
            for bucket, own in labels.items()
            if all(str(own.get(name)) == value for name, value in chosen.labels)
        ]
        parts.append(f"bucket IN ({', '.join(map(str, wanted)) or 'NULL'})")
    return " AND ".join(parts), values


def find(counted: Counted, chosen: Filter) -> Found:
    """The rollouts that a filter lets through, a page of them."""
    labels = counted.labels()
    where, values = condition(chosen, labels)
    sums = counted.ask(
        f"SELECT failure, count(*), count_if(valid), sum(reward) FROM rollouts WHERE {where} "
        "GROUP BY failure ORDER BY count(*) DESC, failure",
        values,
    )
    n, valid = sum(row[1] for row in sums), sum(row[2] for row in sums)
    pages = max(1, -(-n // PAGE))
    skip = (min(chosen.page, pages) - 1) * PAGE
    rows = counted.ask(
        'SELECT file, "row", version, source, step, task_id, sample, bucket, reward, valid, '
        f"optimal, failure, stop, tokens FROM rollouts WHERE {where} "
        f"ORDER BY {ORDERS[chosen.order]} LIMIT {PAGE} OFFSET {skip}",
        values,
    )
    columns = ("version", "source", "step", "task_id", "sample", "labels", "reward", "valid",
               "optimal", "failure", "stop", "tokens")  # fmt: skip
    found = []
    for file, row, *rest in rows:
        values_of = dict(zip(columns, rest, strict=True))
        values_of["labels"] = labels.get(values_of["labels"], {})
        found.append({"id": f"{counted.names[file]}/{row}", **values_of})
    failures = [(str(name), count) for name, count, _, _ in sums if name is not None]
    total = sum(row[3] or 0.0 for row in sums)
    return Found(n, wilson(valid, n), total / n if n else None, failures, found, pages)


def choices(counted: Counted) -> dict[str, Any]:
    """What filters can be set to."""
    labels: dict[str, set[str]] = {}
    for own in counted.labels().values():
        for name, value in own.items():
            labels.setdefault(name, set()).add(str(value))
    known = counted.ask("SELECT DISTINCT version, source FROM rollouts ORDER BY version")
    failures = counted.ask(
        "SELECT DISTINCT failure FROM rollouts WHERE failure IS NOT NULL ORDER BY failure"
    )
    return {
        "versions": sorted({version for version, _ in known}),
        "sources": [source for source in SOURCES if any(source == one for _, one in known)],
        "failures": [name for (name,) in failures],
        "labels": {name: sorted(values, key=natural) for name, values in sorted(labels.items())},
    }


def natural(text: str) -> tuple[int, float, str]:
    """Numbers in numeric order, before words."""
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text


def one(counted: Counted, name: str) -> dict[str, Any] | None:
    """All that is stored of a rollout; None if there is none of this name."""
    place, _, row = name.rpartition("/")
    if place not in counted.files or not row.isdecimal() or len(row) > 9:
        return None
    number, path = counted.files[place]
    import duckdb

    try:
        cursor = counted.cursor()
        result = cursor.execute(
            "SELECT * EXCLUDE (file_row_number), to_json(bucket)::VARCHAR AS bucket_json, "
            "to_json(components)::VARCHAR AS components_json FROM "
            f"read_parquet(?, file_row_number = true) WHERE file_row_number = {int(row)}",
            [str(path)],
        )
        columns = [column[0] for column in result.description or ()]
        found = result.fetchone()
    except duckdb.Error as error:
        raise UserError(f"{place}.parquet: {' '.join(str(error).split())[:200]}") from None
    if found is None:
        return None
    values = dict(zip(columns, found, strict=True))
    values["bucket"] = json.loads(values.pop("bucket_json") or "{}")
    values["components"] = json.loads(values.pop("components_json") or "{}")
    values["details"] = json.loads(values["details"] or "{}")
    where = 'file = ? AND "row" = ?'
    (version, source, group), *_ = counted.ask(
        f'SELECT version, source, "group" FROM rollouts WHERE {where}', [number, int(row)]
    ) or [(None, "", 0)]
    siblings = counted.ask(
        'SELECT file, "row", sample, reward, valid, failure FROM rollouts WHERE version = ? AND '
        'source = ? AND "group" = ? ORDER BY sample, file, "row" LIMIT 64',
        [version, source, group],
    )
    values["group_members"] = [
        {"id": f"{counted.names[file]}/{at}", "sample": sample, "reward": reward, "valid": valid,
         "failure": failure}
        for file, at, sample, reward, valid, failure in siblings
    ]  # fmt: skip
    return {"id": name, "version": version, "source": source, **values}
