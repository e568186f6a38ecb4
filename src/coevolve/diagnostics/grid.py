"""Diagnostics proposed without any model: simple questions about every column of the views.

Means, high and low quantiles, correlations with success, per failure class, reward component and
label. Each is asked in both directions; the test of a trial knows how many there are.
"""

import re
from collections.abc import Iterator
from typing import Literal

from coevolve.diagnostics.health import Diagnosis
from coevolve.diagnostics.views import quoted
from coevolve.harness.diagnostic import Diagnostic, Layer

SOURCES = ("train", "dev")
NO_QUESTION = ("version", "step", "sample", "seconds", "drawing_s", "answer_hash", "tokens", "n")
"""Numbers that name things, or tell about the machine."""
SCORES = ("reward", "valid", "optimal", "mean")
MOST_NAMES = 12
"""Failure classes, components and values of a label that are asked about: the commonest."""
NUMBERS = ("INTEGER", "BIGINT", "DOUBLE", "FLOAT")


def grid(diagnosis: Diagnosis) -> list[Diagnostic]:
    """All questions that the evidence of a run can answer."""
    asked: dict[str, Diagnostic] = {}
    for name, question, layer, sql in questions(diagnosis):
        for direction, ending in SIDES:
            short = f"{re.sub('[^a-z0-9]+', '_', name.lower()).strip('_')[:55]}_{ending}"
            asked.setdefault(
                short,
                Diagnostic(
                    name=short,
                    question=question,
                    layer=layer,
                    sql=sql,
                    direction=direction,
                    provenance="from the grid of columns",
                    built_in=True,  # until it is kept in a file, which cannot claim it
                ),
            )
    return list(asked.values())


SIDES: tuple[tuple[Literal["above", "below"], str], ...] = (("above", "high"), ("below", "low"))

Question = tuple[str, str, Layer, str]
"""Name, question, layer, SQL."""


def questions(diagnosis: Diagnosis) -> Iterator[Question]:
    for source in SOURCES:
        place = f"rollouts WHERE source = '{source}'"
        for column, kind in columns(diagnosis, "rollouts"):
            number = f"{column}::INTEGER" if kind == "BOOLEAN" else column
            if column in SCORES:
                continue
            yield mean(f"{column}_{source}", number, place, f"mean {column} of {source}")
            if kind != "BOOLEAN":
                yield from spread(f"{column}_{source}", column, place, f"{column} of {source}")
            yield correlation(f"{column}_{source}", number, place, f"{column} of {source}")
        for failure in names(diagnosis, "failure", f"{place} AND failure IS NOT NULL"):
            test = f"coalesce(failure = {quoted(failure)}, false)::INTEGER"
            yield mean(f"failed_{failure}_{source}", test, place, f"share of {failure} in {source}")
        for part in names(diagnosis, "unnest(map_keys(components))", place):
            value = f"components[{quoted(part)}]"
            about = f"component {part} of {source}"
            yield mean(f"part_{part}_{source}", value, place, f"mean {about}")
            yield correlation(f"part_{part}_{source}", value, place, about)
        for label in names(diagnosis, "unnest(map_keys(bucket))", place):
            for one in names(diagnosis, f"bucket[{quoted(label)}]", place):
                yield mean(
                    f"valid_{label}_{one}_{source}", "valid::INTEGER",
                    f"{place} AND bucket[{quoted(label)}] = {quoted(one)}",
                    f"share of valid answers where {label} is {one}, in {source}",
                )  # fmt: skip
    for column, kind in columns(diagnosis, "groups"):
        number = f'"{column}"::INTEGER' if kind == "BOOLEAN" else f'"{column}"'
        if column not in SCORES:
            place = "groups WHERE source = 'train' AND n > 1"
            yield mean(f"group_{column}", number, place, f"mean {column} of groups", "signal")
    for column, _ in columns(diagnosis, "steps"):
        if column not in SCORES:
            place = f"steps WHERE {column} IS NOT NULL"
            yield mean(f"step_{column}", column, place, f"mean {column} of steps", "signal")


def mean(name: str, value: str, place: str, words: str, layer: Layer = "behaviour") -> Question:
    sql = (
        f"SELECT version, avg({value}) AS value, count({value}) AS n FROM {place} GROUP BY version"
    )
    return f"mean_{name}", f"What is the {words}?", layer, sql


def spread(name: str, value: str, place: str, words: str) -> Iterator[Question]:
    for quantile in (0.1, 0.9):
        sql = (
            f"SELECT version, quantile_cont({value}, {quantile}) AS value, count({value}) AS n "
            f"FROM {place} GROUP BY version"
        )
        percent = round(100 * quantile)
        yield (
            f"q{percent}_{name}",
            f"What is the {percent} % quantile of {words}?",
            "behaviour",
            sql,
        )


def correlation(name: str, value: str, place: str, words: str) -> Question:
    sql = (
        f"SELECT version, CASE WHEN stddev_pop({value}) > 0 AND stddev_pop(valid::INTEGER) > 0 "
        f"THEN corr({value}, valid::INTEGER) END AS value, count({value}) AS n "
        f"FROM {place} GROUP BY version"
    )
    return f"corr_{name}", f"How does {words} go with success (correlation)?", "signal", sql


def columns(diagnosis: Diagnosis, view: str) -> list[tuple[str, str]]:
    """Names and types of the columns of a view that are numbers or truths."""
    rows = diagnosis.trusted(f"SELECT column_name, column_type FROM (DESCRIBE {view})").rows
    return [
        (name, kind)
        for name, kind in rows
        if kind in (*NUMBERS, "BOOLEAN") and name not in NO_QUESTION
    ]


def names(diagnosis: Diagnosis, value: str, place: str) -> list[str]:
    """The commonest values of a text."""
    rows = diagnosis.trusted(
        f"SELECT name FROM (SELECT {value} AS name FROM {place}) GROUP BY name "
        f"ORDER BY count(*) DESC, name LIMIT {MOST_NAMES}"
    ).rows
    return [str(row[0]) for row in rows if row[0] is not None]
