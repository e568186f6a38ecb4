"""Diagnostics proposed without any model: simple questions about every column of the views.

Means, high and low quantiles, correlations with success, per failure class, reward component and
label. Each is asked in both directions; the test of a trial knows how many there are.

A grid of hundreds would find something in any ten versions by chance, and its trial, which knows
that, could accept nothing. So the grid is first cut down to those that differ most firmly between
versions, without looking at any verdict, which leaves the trial's chance of an error as it is.
"""

import re
from collections.abc import Iterator
from math import comb

import numpy as np

from coevolve.diagnostics.health import Diagnosis
from coevolve.diagnostics.separation import Readings, alike
from coevolve.diagnostics.suite import load_suite
from coevolve.diagnostics.trials import Occasion, agreements, replay
from coevolve.diagnostics.views import quoted
from coevolve.harness.diagnostic import Diagnostic, Direction, Layer

SOURCES = ("train", "dev")
NO_QUESTION = ("version", "step", "sample", "seconds", "drawing_s", "answer_hash", "tokens", "n")
"""Numbers that name things, or tell about the machine."""
SCORES = ("reward", "valid", "optimal", "mean")
MOST_NAMES = 12
"""Failure classes, components and values of a label that are asked about: the commonest."""
NUMBERS = ("INTEGER", "BIGINT", "DOUBLE", "FLOAT")
MOST = 100
"""Questions in one trial, however many versions there are."""
SIDES: tuple[tuple[Direction, str], ...] = (("above", "high"), ("below", "low"))
MEASURES = {
    "mean": ("avg({0})", "What is the {0}?"),
    "q10": ("quantile_cont({0}, 0.1)", "What is the 10 % quantile of {0}?"),
    "q90": ("quantile_cont({0}, 0.9)", "What is the 90 % quantile of {0}?"),
    "corr": (
        "CASE WHEN stddev_pop({0}) > 0 AND stddev_pop(valid::INTEGER) > 0 "
        "THEN corr({0}, valid::INTEGER) END",
        "How does {0} go with success (correlation)?",
    ),
}
"""What is asked of a column: in SQL, and in words."""

Question = tuple[str, str, Layer, str]
"""Name, question, layer, SQL."""


def from_grid(occasion: Occasion) -> list[Diagnostic]:
    """Diagnostics to try, proposed by nobody; empty where there are too few versions to tell."""
    good, rule = sum(occasion.labels.values()), occasion.rule
    room = rule.level * comb(len(occasion.labels), good) / (1 + occasion.earlier)
    most = min(MOST, int(room) // 2)
    if most < 1 or good in (0, len(occasion.labels)):
        return []
    suite = load_suite(occasion.folder)
    with Diagnosis(occasion.folder, suite, occasion.bounds, blind=True) as diagnosis:
        sides = grid(diagnosis)
        known = [replay(diagnosis, one).readings for one in suite.of(diagnosis.domains())]
        asked = {one.name: replay(diagnosis, one).readings for one in sides[::2]}
    whole = [one for one in sides[::2] if len(asked[one.name]) == len(occasion.labels)]
    firm = agreements(whole, occasion, agreement)
    chosen: list[str] = []
    for name in sorted(firm, key=lambda name: (-firm[name], name)):
        others = [*known, *(asked[other] for other in chosen)]
        new = not any(abs(alike(asked[name], other)[0]) >= rule.most_alike for other in others)
        if len(chosen) < most and new:
            chosen.append(name)
    pairs = {one.name: (one, other) for one, other in zip(sides[::2], sides[1::2], strict=True)}
    return [one for name in chosen for one in pairs[name]]


def agreement(one: Readings, other: Readings) -> float:
    """The correlation over versions; 0 where there is none, or where halves say the very same: what
    is not asked of tasks, such as steps, is not tried by halving them."""
    both = sorted(one.keys() & other.keys())
    values = np.array([[half[version] for version in both] for half in (one, other)])
    if len(both) < 2 or np.ptp(values, axis=1).min() == 0 or (values[0] == values[1]).all():
        return 0.0
    return float(np.corrcoef(values)[0, 1])


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


def questions(diagnosis: Diagnosis) -> Iterator[Question]:
    for source in SOURCES:
        place = f"rollouts WHERE source = '{source}'"
        for column, kind in columns(diagnosis, "rollouts"):
            number = f"{column}::INTEGER" if kind == "BOOLEAN" else column
            if column in SCORES:
                continue
            about = f"{column} of {source}"
            yield ask("mean", f"{column}_{source}", number, place, f"mean {about}")
            if kind != "BOOLEAN":
                yield ask("q10", f"{column}_{source}", column, place, about)
                yield ask("q90", f"{column}_{source}", column, place, about)
            yield ask("corr", f"{column}_{source}", number, place, about, "signal")
        for failure in names(diagnosis, "failure", f"{place} AND failure IS NOT NULL"):
            test = f"coalesce(failure = {quoted(failure)}, false)::INTEGER"
            about = f"share of {failure} in {source}"
            yield ask("mean", f"failed_{failure}_{source}", test, place, about)
        for part in names(diagnosis, "unnest(map_keys(components))", place):
            value = f"components[{quoted(part)}]"
            about = f"component {part} of {source}"
            yield ask("mean", f"part_{part}_{source}", value, place, f"mean {about}")
            yield ask("corr", f"part_{part}_{source}", value, place, about, "signal")
        for label in names(diagnosis, "unnest(map_keys(bucket))", place):
            for one in names(diagnosis, f"bucket[{quoted(label)}]", place):
                yield ask(
                    "mean", f"valid_{label}_{one}_{source}", "valid::INTEGER",
                    f"{place} AND bucket[{quoted(label)}] = {quoted(one)}",
                    f"share of valid answers where {label} is {one}, in {source}",
                )  # fmt: skip
    for column, kind in columns(diagnosis, "groups"):
        number = f'"{column}"::INTEGER' if kind == "BOOLEAN" else f'"{column}"'
        if column not in SCORES:
            place = "groups WHERE source = 'train' AND n > 1"
            yield ask(
                "mean", f"group_{column}", number, place, f"mean {column} of groups", "signal"
            )
    for column, _ in columns(diagnosis, "steps"):
        if column not in SCORES:
            place = f"steps WHERE {column} IS NOT NULL"
            yield ask("mean", f"step_{column}", column, place, f"mean {column} of steps", "signal")


def ask(
    kind: str, name: str, value: str, place: str, words: str, layer: Layer = "behaviour"
) -> Question:
    """One of the measures of a value, over the rows of a place."""
    measure, question = MEASURES[kind]
    sql = (
        f"SELECT version, {measure.format(value)} AS value, count({value}) AS n FROM {place} "
        "GROUP BY version"
    )
    return f"{kind}_{name}", question.format(words), layer, sql


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
