"""Evidence as a table of small whole numbers, and a design as digits and words: the style of small
models.

    size3 4 0 8 6 1 9 5 5 / size4 4 3 5 6 0 5 4 5 / agents2 4 6 9 8 7 9 edits

A row per share, from the first to the last that is in use now, by default or in the target: the
share (4 is even), the target's, the valid rate, number of rollouts (each step doubles it), dead
groups, the valid rate on dev, and where its difficulty knobs lie beside the target's (5 is as
there); all from 0 to 9. The answer repeats the rows with the weight of each share, from 0 to 9,
and an action for each of those knobs:

    size3 0 same same / size4 9 up same / agents2 3

Invariant: what `read` returns is written and read again without a change.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from coevolve.domains.knobs import Knob
from coevolve.engineering.trainee import level, tied
from coevolve.engineers.base import View
from coevolve.engineers.model import schema
from coevolve.engineers.reach import step
from coevolve.engineers.signals import evidence, standing
from coevolve.store.cells import NOTHING, Cell, pooled

ACTIONS = ("up", "same", "down")
EVEN = 4
"""The digit of a share when all of its group are alike."""
MOST = 9
END = "edits"


class TableError(Exception):
    """An answer that is no design for this prompt."""


class Row(NamedTuple):
    """One share and what hangs on it."""

    name: str
    share: Knob
    difficulties: tuple[Knob, ...]


def rows(view: View) -> list[Row]:
    """The rows of a prompt and of its answer, in order."""
    return [row for group in view.space.groups for row in rows_of(view, group)]


def rows_of(view: View, group: str) -> list[Row]:
    """From the first to the last that matters: small models count on."""
    shares = [view.space.knobs[name] for name in view.space.groups[group]]
    shown = [at for at, share in enumerate(shares) if matters(view, share)]
    return [
        Row(share.prefix, share, tied(view.incumbent, share))
        for share in shares[shown[0] : shown[-1] + 1]
    ]


def form(view: View) -> str:
    """The JSON schema of an answer in words: values for these rows, each at most once."""
    names = [knob.name for row in rows(view) for knob in (row.share, *row.difficulties)]
    return schema("whole", (), tuple(names))


def matters(view: View, share: Knob) -> bool:
    """Whether tasks are made of it, now, by default or in the target."""
    return view.incumbent[share.name] > 0 or share.default > 0 or share.name in view.target


def prompt(view: View) -> str:
    """What a policy is shown."""
    now, lines = standing(view), []
    for group in view.space.groups:
        found = rows_of(view, group)
        for name, share, difficulties in found:
            numbers = [
                digit(EVEN * view.incumbent[share.name] * len(found)),
                digit(EVEN * aimed(view, share) * len(found)),
                *counted(evidence(now, share.label) if share.label else NOTHING),
                digit(10 * pooled(now.dev, share.label).rate) if share.label else 0,
                *(beside(view, knob) for knob in difficulties),
            ]
            lines.append(" ".join((name, *map(str, numbers))))
    return f"{' / '.join(lines)} {END}"


def aimed(view: View, share: Knob) -> float:
    """What part of the target a share is; of the tasks now where no target is known."""
    known = view.target.get(share.name)
    return known.value if known else 0.0 if view.target else view.incumbent[share.name]


def counted(cell: Cell) -> list[int]:
    """Rate, number and dead groups."""
    return [
        digit(10 * cell.rate),
        digit(math.log2(cell.n + 1)) if cell.n else 0,
        digit(10 * cell.dead / cell.groups) if cell.groups else 0,
    ]


def beside(view: View, knob: Knob) -> int:
    """How a difficulty knob compares with what the target's tasks are like."""
    known = view.target.get(knob.name)
    if not known:
        return 5
    return digit(5.5 + 9 * (level(knob, view.incumbent[knob.name]) - level(knob, known.value)))


def digit(value: float) -> int:
    return min(MOST, max(0, math.floor(value + 1e-9)))


class Choice(NamedTuple):
    """What an answer says in one row."""

    row: Row
    weight: int
    actions: tuple[str, ...]


def choices(view: View, values: Mapping[str, float], group: str) -> list[Choice]:
    """Values of knobs as rows of a group: those of its shares are taken as weights."""
    found = rows_of(view, group)
    weights = [values.get(row.share.name, view.incumbent[row.share.name]) for row in found]
    most = max(weights, default=0.0) or 1.0
    said = [round(MOST * weight / most) for weight in weights]
    return [
        Choice(row, weight, tuple(
            action(view, knob, values) if weight else "same" for knob in row.difficulties
        ))
        for row, weight in zip(found, said, strict=True)
    ]  # fmt: skip


def write(view: View, values: Mapping[str, float]) -> str:
    """Values of knobs as an answer."""
    found = [one for group in view.space.groups for one in choices(view, values, group)]
    return " / ".join(" ".join((row.name, str(weight), *acts)) for row, weight, acts in found)


def action(view: View, knob: Knob, values: Mapping[str, float]) -> str:
    """The word that leads nearest to a value."""
    now = view.incumbent[knob.name]
    wanted = values.get(knob.name, now)
    reached = {word: value_of(view, knob, word) for word in ACTIONS}
    return min(ACTIONS, key=lambda word: (abs(reached[word] - wanted), word != "same"))


def value_of(view: View, knob: Knob, word: str) -> float:
    """What an action makes of a difficulty knob."""
    now = view.incumbent[knob.name]
    if word == "same":
        return now
    value = step(knob, now, word == "up", view.reach)
    return min(max(value, knob.low), knob.high)


def read(view: View, text: str) -> dict[str, float]:
    """The values in an answer; a group whose weights are all 0 is left as it is."""
    wanted = rows(view)
    lines = [line.split() for line in text.strip().split("/")]
    if len(lines) != len(wanted):
        raise TableError(f"{len(lines)} rows instead of {len(wanted)}")
    values: dict[str, float] = {}
    for row, line in zip(wanted, lines, strict=True):
        if len(line) != 2 + len(row.difficulties) or line[0] != row.name:
            raise TableError(f"the row '{' '.join(line)[:60]}' is none of {row.name}")
        if not is_weight(line[1]):
            raise TableError(f"'{line[1][:20]}' is no weight; use a digit")
        values[row.share.name] = float(line[1])
        for knob, said in zip(row.difficulties, line[2:], strict=True):
            if said not in ACTIONS:
                raise TableError(f"'{said[:20]}' is no action; use {', '.join(ACTIONS)}")
            if said != "same":
                values[knob.name] = value_of(view, knob, said)
    for members in view.space.groups.values():
        shares = [name for name in members if name in values]
        total = sum(values[name] for name in shares)
        for name in shares:
            values[name] = values[name] / total if total else view.incumbent[name]
    return values


def middle(view: View, designs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of several designs."""
    names = dict.fromkeys(name for design in designs for name in design)
    return {
        name: sum(design.get(name, view.incumbent[name]) for design in designs) / len(designs)
        for name in names
    }


def is_weight(word: str) -> bool:
    return len(word) == 1 and word.isascii() and word.isdigit()


def is_table(text: str) -> bool:
    """Whether a text is such an answer, which says nothing to people."""
    lines = [line.split() for line in text.strip().split("/")]
    return all(
        len(line) > 1 and is_weight(line[1]) and all(said in ACTIONS for said in line[2:])
        for line in lines
    )
