"""Curricula of reasoning-gym as knobs: each attribute has levels, and a knob is the mean level.

Invariant: what a knob asks for is recorded in the task as the levels that were really used; the
library refuses some combinations, and the nearest that it takes is used instead.
"""

import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import lru_cache
from io import StringIO
from typing import Any, NamedTuple

from reasoning_gym.coaching.base_curriculum import (
    DefaultCurriculumContext,
    RangeAttributeMode,
)
from reasoning_gym.cognition.number_sequences import PatternRule
from reasoning_gym.factory import CURRICULA, DATASETS

from coevolve.core.errors import DomainError
from coevolve.domains.knobs import Knob, KnobSpace

CONTEXT = DefaultCurriculumContext(RangeAttributeMode.UPPER_BOUND)
REFUSALS = (AssertionError, ValueError, IndexError, KeyError, RuntimeError)
"""What the library raises for settings that cannot be met."""
HIGHEST: dict[str, dict[str, int]] = {
    "bf": {"difficulty": 1},
    "caesar_cipher": {"rotation": 1},
    "countdown": {"numbers": 0, "target": 1, "value": 0},
    "futoshiki": {"board_size": 1, "difficulty": 2},
    "game_of_life": {"grid_size_x": 1, "grid_size_y": 1},
    "jugs": {"num_jugs": 1, "difficulty": 1},
    "kakurasu": {"rows": 2, "cols": 2},
    "letter_jumble": {"word_len": 1},
    "n_queens": {"n": 2, "num_removed": 2},
    "number_sequence": {"terms": 0, "max_complexity": 1},
    "puzzle24": {"value": 0},
    "spell_backward": {"word_len": 3},
    "sudoku": {"empty": 2},
    "zebra_puzzles": {"num_people": 1, "num_characteristics": 1},
}
"""Levels beyond which the library fails or takes many seconds for a task."""
REFERENCES = {"graph_color": "possible_answer"}
"""Where an answer stands that the data set does not give as one, because others are right too."""
HUGE = 1_000
"""The library throws sequences with greater terms away, but first computes all their terms, which
may square themselves for minutes."""
next_term = PatternRule.apply


def small_term(rule: PatternRule, sequence: list[int], position: int) -> int:
    """As the library has it, but ends at the first term that is too great."""
    term: int = next_term(rule, sequence, position)
    if abs(term) > HUGE:
        raise OverflowError
    return term


PatternRule.apply = small_term


def datasets() -> list[str]:
    """All data sets that the library has registered."""
    return sorted(DATASETS)


class Attribute(NamedTuple):
    """One attribute of a curriculum."""

    name: str
    levels: int
    meaning: str
    categorical: bool
    """Its levels switch between kinds rather than go up."""


def attributes_of(dataset: str) -> list[Attribute]:
    """The attributes of a data set that can be changed; none where it has no curriculum."""
    if dataset not in CURRICULA:
        return []
    found = []
    for name, attribute in CURRICULA[dataset]().attributes.items():
        highest = HIGHEST.get(dataset, {}).get(name, len(attribute.levels) - 1)
        levels = attribute.levels[: highest + 1]
        if any(level != levels[0] for level in levels):
            meaning = (attribute.description or name.replace("_", " ")).strip().rstrip(".").lower()
            found.append(Attribute(name, len(levels), meaning, one_hot(levels)))
    return found


def one_hot(levels: list[Any]) -> bool:
    """Whether each level is a list with a single one among zeros."""
    return all(isinstance(level, list) and sorted(level)[-2:] == [0, 1] for level in levels)


def space_of(attributes: list[Attribute]) -> KnobSpace:
    """A knob for each attribute, or a share for each of its kinds."""
    knobs: list[Knob] = []
    for name, levels, meaning, categorical in attributes:
        if not categorical:
            knobs.append(
                Knob(
                    name, 0, levels - 1, 0.5, "level", f"mean level of: {meaning}", harder=1,
                    shown=True,
                )
            )  # fmt: skip
            continue
        knobs += [
            Knob(
                f"{name}{level}.share", 0, 1, 1 / levels, "share of tasks",
                f"share of tasks of kind {level} of: {meaning}", group=name, label=(name, level),
            )
            for level in range(levels)
        ]  # fmt: skip
    return KnobSpace(tuple(knobs))


@lru_cache(maxsize=1_024)
def entry_of(dataset: str, levels: tuple[tuple[str, int], ...], seed: int) -> dict[str, Any]:
    """The task of a data set at some levels, with a reference answer that is text; raises one of
    REFUSALS where it has none."""
    if dataset in CURRICULA:
        source = opened(dataset, levels)
        source.seed = source.config.seed = seed  # as in a new one, which would read files again
    else:
        kind, settings = DATASETS[dataset]
        source = kind(settings(seed=seed, size=1))
    with redirect_stdout(StringIO()):  # some data sets talk
        entry: dict[str, Any] = source[0]
    if dataset not in REFERENCES:
        return entry
    answer = entry["metadata"][REFERENCES[dataset]]
    return {**entry, "answer": answer if isinstance(answer, str) else json.dumps(answer)}


@lru_cache(maxsize=256)
def opened(dataset: str, levels: tuple[tuple[str, int], ...]) -> Any:
    """A data set at some levels, to make tasks and to score answers."""
    kind, settings = DATASETS[dataset]
    values = {"seed": 0, "size": 1}
    if dataset not in CURRICULA:
        return kind(settings(**values))
    curriculum = CURRICULA[dataset]()
    for name, level in levels:
        curriculum.set_attr_level(name, level)
    return kind(curriculum.generate_configuration(defaults=values, context=CONTEXT))


def nearby(wanted: dict[str, int], attributes: list[Attribute]) -> Iterator[dict[str, int]]:
    """Levels to try in turn: those wanted, then with the others raised, then all lowered."""
    yield wanted
    room = {attribute.name: attribute.levels - 1 for attribute in attributes}
    raised = dict(wanted)
    while any(raised[name] < room[name] for name in room):
        raised[min(raised, key=lambda name: (raised[name] / room[name], name))] += 1
        yield dict(raised)
    lowered = dict(wanted)
    while any(lowered.values()):
        lowered[max(lowered, key=lambda name: (lowered[name] / room[name], name))] -= 1
        yield dict(lowered)


def nearest_entry(
    dataset: str, wanted: dict[str, int], attributes: list[Attribute], seed: int
) -> tuple[dict[str, int], dict[str, Any]]:
    """The levels nearest to those wanted at which there is a task, and the task."""
    reason = ""
    for levels in nearby(wanted, attributes):
        try:
            return levels, entry_of(dataset, tuple(levels.items()), seed)
        except REFUSALS as error:
            reason = reason or f"{type(error).__name__}: {error}"
    raise DomainError(f"reasoning-gym makes no task of {dataset} near {wanted}: {reason:.100}")
