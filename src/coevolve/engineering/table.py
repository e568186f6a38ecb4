"""Evidence as a table of small whole numbers, and edits as words: the style of small models.

    size3 4 8 6 1 7 4 5 / size4 4 5 6 0 5 4 5 / agents2 4 6 9 0 6 edits

A row per share, from the first to the last in use now or by default: the share (4 is even, 0 may be
unused), valid rate, number of rollouts (each step doubles it), dead groups, the rate of the round
before, and where in their range its difficulty knobs lie; all from 0 to 9. The answer repeats the
rows with an action each for the share and those knobs; of unused shares nothing is taken:

    size3 down up up / size4 up same same / agents2 same

Invariant: `read` of what `write` wrote gives the same edits of shares in use back.
"""

import math
from typing import NamedTuple

from coevolve.domains.knobs import Knob, Knobs
from coevolve.engineering.trainee import level, tied
from coevolve.engineers.base import Edit, View
from coevolve.engineers.signals import evidence, standing
from coevolve.store.cells import NOTHING, Cell

ACTIONS = {"up": "raise", "same": "", "down": "lower"}
WORDS = {action: word for word, action in ACTIONS.items()}
EVEN = 4
"""The level of a share when all of its group are alike."""
END = "edits"


class TableError(Exception):
    """An answer that is no table of actions for this prompt."""


class Row(NamedTuple):
    """One share and what hangs on it."""

    name: str
    knobs: tuple[Knob, ...]
    """The share, then its difficulty knobs."""
    used: bool


def rows(knobs: Knobs) -> list[Row]:
    """The rows of a prompt and of its answer, in order."""
    return [row for group in knobs.space.groups for row in rows_of(knobs, group)]


def rows_of(knobs: Knobs, group: str) -> list[Row]:
    """From the first to the last that is in use, now or by default: small models count on."""
    shares = [knobs.space.knobs[name] for name in knobs.space.groups[group]]
    shown = [at for at, share in enumerate(shares) if knobs[share.name] > 0 or share.default > 0]
    return [
        Row(share.prefix, (share, *tied(knobs, share)), knobs[share.name] > 0)
        for share in shares[shown[0] : shown[-1] + 1]
    ]


def prompt(view: View) -> str:
    """What a policy is shown."""
    now, before = standing(view), earlier(view)
    lines = []
    for group in view.space.groups:
        found = rows_of(view.incumbent, group)
        even = sum(row.used for row in found)
        for name, (share, *difficulties), _ in found:
            cell = evidence(now, share.label) if share.label else NOTHING
            numbers = [
                digit(EVEN * view.incumbent[share.name] * even),
                *counted(cell, before.get(share.name, NOTHING)),
                *(digit(10 * level(knob, view.incumbent[knob.name])) for knob in difficulties),
            ]
            lines.append(" ".join((name, *map(str, numbers))))
    return f"{' / '.join(lines)} {END}"


def counted(cell: Cell, past: Cell) -> list[int]:
    """Rate, number, dead groups, and the rate before."""
    return [
        digit(10 * cell.rate),
        digit(math.log2(cell.n + 1)) if cell.n else 0,
        digit(10 * cell.dead / cell.groups) if cell.groups else 0,
        digit(10 * (past.rate if past.n else cell.rate)),
    ]


def earlier(view: View) -> dict[str, Cell]:
    """The evidence of the round before the one in force, by share."""
    kept = [past for past in view.history if past.verdict == "kept"][:-1]
    if not kept:
        return {}
    return {
        name: evidence(kept[-1], knob.label)
        for name, knob in view.space.knobs.items()
        if knob.group and knob.label
    }


def digit(value: float) -> int:
    return min(9, max(0, math.floor(value + 1e-9)))


def write(knobs: Knobs, edits: tuple[Edit, ...]) -> str:
    """Edits that raise or lower as an answer."""
    actions = {edit.knob: WORDS[edit.action] for edit in edits}
    return " / ".join(
        " ".join((name, *(actions.get(knob.name, "same") if used else "same" for knob in those)))
        for name, those, used in rows(knobs)
    )


def read(knobs: Knobs, text: str) -> tuple[Edit, ...]:
    """The edits in an answer."""
    wanted = rows(knobs)
    lines = [line.split() for line in text.strip().split("/")]
    if len(lines) != len(wanted):
        raise TableError(f"{len(lines)} rows instead of {len(wanted)}")
    edits = []
    for row, line in zip(wanted, lines, strict=True):
        if len(line) != 1 + len(row.knobs) or line[0] != row.name:
            raise TableError(f"the row '{' '.join(line)[:60]}' is none of {row.name}")
        for knob, said in zip(row.knobs, line[1:], strict=True):
            if said not in ACTIONS:
                raise TableError(f"'{said[:20]}' is no action; use {', '.join(ACTIONS)}")
            if ACTIONS[said] and row.used:
                edits.append(Edit.model_validate({"knob": knob.name, "action": ACTIONS[said]}))
    return tuple(edits)


def is_table(text: str) -> bool:
    """Whether a text is such an answer, which says nothing to people."""
    lines = [line.split() for line in text.strip().split("/")]
    return all(len(line) > 1 and all(said in ACTIONS for said in line[1:]) for line in lines)
