"""What a person decides on a page: approve, revise with a note, abort.

Invariant: an answer counts only for the question that was on the page, and is recorded through the
ledger like one from a terminal.
"""

from collections.abc import Mapping

from coevolve.core.errors import UserError
from coevolve.dashboard.web.folders import RunFolder
from coevolve.store import approval
from coevolve.store.approval import Answer
from coevolve.store.ledger import Ledger

LONGEST_NOTE = 4_000


def decide(run: RunFolder, form: Mapping[str, str]) -> Answer:
    """Record what was decided."""
    decision, note = form.get("decision", ""), form.get("note", "").strip()
    if len(note) > LONGEST_NOTE:
        raise UserError(f"the note has {len(note):,} characters; use at most {LONGEST_NOTE:,}")
    if decision == "revise" and not note:
        raise UserError("a revision needs a note that tells the engineer what to change")
    with Ledger.open(run.folder) as ledger:
        question = approval.waiting(ledger)
        if question is None or str(question.number) != form.get("question"):
            raise UserError(
                f"run {run.name} no longer waits for this answer; look at the page again"
            )
        return approval.answer(ledger, decision, note, question.number)  # type: ignore[arg-type]
