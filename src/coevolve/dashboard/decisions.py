"""One round as it was decided: what the engineer saw and said, what became of it, and the verdict.

Invariant: what was proposed goes through the same projection as in the run; nothing is judged anew.
"""

from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from coevolve.core.rollout import Rollout
from coevolve.dashboard.evidence import Evidence, evidence_of
from coevolve.dashboard.headline import rate
from coevolve.dashboard.levels import incumbent_after
from coevolve.dashboard.record import Record
from coevolve.domains.knobs import Knobs
from coevolve.engineers.base import Proposal
from coevolve.engineers.fence import clean, cut
from coevolve.engineers.reach import apply
from coevolve.evaluation.statistics import Rate

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
    context: dict[str, list[tuple[str, str]]]
    """What model engineers were shown, role and text, where it was recorded."""
    said: tuple[Said, ...]


class RoundFacts(NamedTuple):
    """Everything about one round."""

    number: int
    author: str
    """Who the knobs of this round are from."""
    trained: dict[str, Any]
    dev: Rate | None
    gate: Rate | None
    verdict: dict[str, Any]
    evidence: tuple[Evidence, ...]
    cases: tuple[dict[str, Any], ...]
    attempts: tuple[Attempt, ...]
    choice: dict[str, Any]
    """The backtest: chosen, words, probes."""
    missing: tuple[str, ...]
    """Phases that are not there."""


def round_facts(record: Record, number: int, knobs: list[Knobs], gate: list[Rollout]) -> RoundFacts:
    """What the ledger has on a round, and the gate rate from its rollouts."""
    trained, verdict = record.payload(number, "train"), record.payload(number, "gate")
    dev = record.payload(number, "dev")
    evidence = tuple(
        found
        for tasks, cells in (("dev", dev.get("cells")), ("training", trained.get("cells")))
        if (found := evidence_of(record, tasks, cells))
    )
    incumbent = incumbent_after(record, knobs, number) if knobs else None
    before = record.payload(number - 1, "backtest") if number else {}
    check_checkpoint(record, number, trained.get("result", {}))
    choice = record.payload(number, "backtest")
    return RoundFacts(
        number,
        str(before.get("chosen", "")) or ("start" if number == 0 else "unknown"),
        trained.get("result", {}),
        next((one.rate for one in evidence if one.tasks == "dev"), None),
        rate(gate),
        verdict,
        evidence,
        tuple(shown_case(case) for case in dev.get("cases", ()) if isinstance(case, dict)),
        attempts_of(record, number, incumbent),
        {**choice, "probes": [with_changes(p, incumbent) for p in choice.get("probes", ())]},
        missing(record, number),
    )


def missing(record: Record, number: int) -> tuple[str, ...]:
    """The phases of a round that should be there and are not."""
    last = record.experiment is not None and number + 1 >= record.experiment.rounds
    expected = ("train", "dev", "gate") if last else ("train", "dev", "gate", "propose", "backtest")
    return tuple(name for name in expected if record.phase(number, name) is None)


def check_checkpoint(record: Record, number: int, result: dict[str, Any]) -> None:
    """Say so where the checkpoint of a round is gone."""
    own = Path(str(result.get("policy", ""))).parts[-2:] == ("stage", "policy")
    if own and not record.place(number, "stage", "policy").is_dir():
        record.trouble(f"the checkpoint of round {number} is missing: rounds/{number:02d}/stage")


def attempts_of(record: Record, number: int, incumbent: Knobs | None) -> tuple[Attempt, ...]:
    """Every time that the engineers were asked in a round."""
    notes = [
        str(event.payload.get("note") or "revise")
        for event in record.events
        if event.kind == "answered" and event.round == number
        and event.payload.get("decision") == "revise"
    ]  # fmt: skip
    found = []
    for attempt in range(len(notes) + 1):
        payload = record.payload(number, f"propose-{attempt}" if attempt else "propose")
        if payload:
            said = tuple(
                one
                for name, proposals in payload.items()
                if name != "context"
                for one in heard(record, name, proposals, incumbent)
            )
            shown = {name: turns(told) for name, told in (payload.get("context") or {}).items()}
            note = written(notes[attempt - 1]) if attempt else ""
            found.append(Attempt(attempt, note, shown, said))
    return tuple(found)


def turns(told: object) -> list[tuple[str, str]]:
    """Messages as role and text; plain text is what the user said."""
    if not isinstance(told, list):
        return [("user", str(told))]
    return [(str(turn.get("role")), str(turn.get("content"))) for turn in told]


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


def with_changes(probe: dict[str, Any], incumbent: Knobs | None) -> dict[str, Any]:
    """A probe with the number of knobs in use in which it differs from the incumbent."""
    if incumbent is None:
        return {**probe, "changed": None}
    knobs = incumbent.space.project(probe.get("knobs", {}))
    used = {knob.name for one in (incumbent, knobs) for knob in one.in_use()}
    return {**probe, "changed": len(used & knobs.difference(incumbent).keys())}


def shown_case(case: dict[str, Any]) -> dict[str, Any]:
    """A failure with its texts made fit to show."""
    return {
        "task_id": written(case.get("task_id", "")),
        "labels": ", ".join(f"{name} {value}" for name, value in case.get("labels", {}).items()),
        "task": written(case.get("task", "")),
        "answer": written(case.get("answer", "")),
        "failure": written(case.get("failure", "")),
        "reason": written((case.get("details") or {}).get("reason", "")),
    }


def written(text: object) -> str:
    """What a model or a person wrote, without hidden characters and not too long."""
    return cut(clean(str(text)[: 4 * MOST_CHARACTERS]), MOST_CHARACTERS)


def brief(value: object) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:.4g}" if number else cut(clean(repr(value)[:400]), 60)
