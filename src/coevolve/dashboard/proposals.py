"""What engineers were shown and said, and what became of it.

Invariant: what was proposed goes through the same projection as in the run.
"""

from typing import Any, NamedTuple

from pydantic import ValidationError

from coevolve.dashboard.record import Record
from coevolve.domains.knobs import Knobs
from coevolve.engineers.base import Proposal
from coevolve.engineers.fence import clean, cut
from coevolve.engineers.reach import apply

MOST_CHARACTERS = 20_000
"""Shown of anything that a model wrote."""
MOST_ASKED = 40
"""Knobs of a proposal that are listed."""


class Asked(NamedTuple):
    """One knob of a proposal: what was asked, and what came of it."""

    knob: str
    wish: str
    before: float | None
    """None for a knob that does not exist."""
    after: float | None


class Said(NamedTuple):
    """One proposal."""

    engineer: str
    explanation: str
    failure: str
    asked: tuple[Asked, ...]
    more: int
    """Knobs that were asked for and are not listed: not in use, or too many."""
    moved: tuple[Asked, ...]
    """Knobs that changed without being asked for: shares that fill up, and what was mended."""


class Attempt(NamedTuple):
    """One time that the engineers were asked; a person may have sent the first back."""

    number: int
    note: str
    """What a person had asked for."""
    context: dict[str, str]
    """What model engineers were shown."""
    said: tuple[Said, ...]


def attempts_of(record: Record, number: int, incumbent: Knobs | None) -> tuple[Attempt, ...]:
    """Every time that the engineers were asked in a round."""
    found: list[Attempt] = []
    while payload := record.payload(number, f"propose-{len(found)}" if found else "propose"):
        proposed = payload.get("proposals") or {}
        said = tuple(
            one
            for name, proposals in proposed.items()
            for one in heard(record, name, proposals, incumbent)
        )
        shown = {name: told for name, proposals in proposed.items() if (told := seen(proposals))}
        found.append(Attempt(len(found), written(payload.get("note", "")), shown, said))
    return tuple(found)


def seen(proposals: Any) -> str:
    """What the engineer was shown, as it is recorded with its first proposal."""
    first = proposals[0] if isinstance(proposals, list) and proposals else None
    return written(first.get("shown", "")) if isinstance(first, dict) else ""


def heard(record: Record, name: str, proposals: Any, incumbent: Knobs | None) -> list[Said]:
    """The proposals of one engineer."""
    found = []
    for values in proposals if isinstance(proposals, list) else []:
        try:
            proposal = Proposal.model_validate(values)
        except ValidationError:
            record.trouble(f"a proposal by {name} is not one: {values!r:.100}")
            continue
        asked, idle, moved = projected(record, proposal, incumbent)
        found.append(
            Said(
                name,
                written(proposal.explanation),
                written(proposal.failure),
                tuple(asked[:MOST_ASKED]),
                idle + max(0, len(asked) - MOST_ASKED),
                tuple(moved),
            )
        )
    return found


def projected(
    record: Record, proposal: Proposal, incumbent: Knobs | None
) -> tuple[list[Asked], int, list[Asked]]:
    """What was asked of each knob and what it came to; how many of those asked for are not in use;
    what moved besides."""
    if incumbent is None or record.experiment is None or proposal.failure:
        return [], 0, []
    after = apply(proposal, incumbent, record.experiment.reach)
    used = {knob.name for knobs in (incumbent, after) for knob in knobs.in_use()}
    wishes = {
        name: brief(value)
        for name, value in proposal.knobs.items()
        if name not in incumbent or value != incumbent[name]
    }
    for edit in proposal.edits:
        wish = edit.action if edit.value is None else f"{edit.action} {brief(edit.value)}"
        wishes[edit.knob] = f"{wishes[edit.knob]}, {wish}" if edit.knob in wishes else wish
    asked = [
        Asked(cut(clean(name), 100), wish, incumbent.get(name), after.get(name))
        for name, wish in wishes.items()
        if name not in incumbent or name in used
    ]
    moved = [
        Asked(name, "", old, new)
        for name, (old, new) in after.difference(incumbent).items()
        if name not in wishes
    ]
    return asked, len(wishes) - len(asked), moved


def written(text: object) -> str:
    """What a model or a person wrote, without hidden characters and not too long."""
    return cut(clean(str(text)[: 4 * MOST_CHARACTERS]), MOST_CHARACTERS)


def brief(value: object) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:.4g}" if number else cut(clean(repr(value)[:400]), 60)
