"""What may end a run before its last version: its budget, and people."""

from typing import Any

from coevolve.loop.run import Run
from coevolve.store import approval
from coevolve.store.spent import spent_so_far


class Stopped(Exception):
    """The run ends early, on purpose; what it has is kept."""


def check_budget(run: Run, place: str, *phases: str) -> None:
    """A run that has spent its budget ends with what it has, before a generation begins.

    One of which a first phase is recorded has begun: a resumed run takes the same decisions.
    """
    if any(run.is_recorded(place, phase) for phase in phases):
        return
    if used_up := run.plan.budget.exhausted(spent_so_far(run.ledger)):
        raise Stopped(used_up)


def approve(run: Run, place: str, gate: str, question: dict[str, Any], always: bool = False) -> str:
    """Wait for a person where the plan says so; returns their note on what to revise.

    Of what is complete nothing can be revised: any note on it is for what comes next.
    """
    if not always and gate not in run.plan.approval:
        return ""
    asked = approval.ask(run.ledger, place, gate, question)
    folder = run.ledger.folder
    if approval.waiting(run.ledger):
        run.say(f"{place}: waiting for `coevolve approve|revise|abort {folder}`")
    answer = approval.wait(run.ledger, asked)
    if answer.decision == "abort":
        raise Stopped(f"aborted at the {gate} of {place}: {answer.note}")
    if answer.decision == "revise":
        return answer.note or "revise"
    return answer.note if gate == "completion" else ""
