"""What may end a run before its last round: its budget, and people."""

from collections.abc import Callable
from typing import Any

from coevolve.harness.experiment import Plan
from coevolve.ledger import approval
from coevolve.ledger.budget import spent_so_far
from coevolve.ledger.ledger import Ledger


class Stopped(Exception):
    """The run ends early, on purpose; what it has is kept."""


class Supervision:
    """Looks at the ledger between phases."""

    def __init__(self, plan: Plan, ledger: Ledger, say: Callable[[str], None]) -> None:
        self.plan, self.ledger, self.say = plan, ledger, say

    def check_budget(self, number: int, *phases: str) -> None:
        """A run that has spent its budget ends with what it has, before a round begins.

        One of which a first phase is recorded has begun: a resumed run takes the same decisions.
        """
        if any(self.ledger.recorded(number, phase) is not None for phase in phases):
            return
        if used_up := self.plan.budget.exhausted(spent_so_far(self.ledger)):
            raise Stopped(used_up)

    def approve(
        self, number: int, gate: str, question: dict[str, Any], always: bool = False
    ) -> str:
        """Wait for a person where the plan says so; returns their note on what to revise.

        Of what is complete nothing can be revised: any note on it is for what comes next.
        """
        if not always and gate not in self.plan.approval:
            return ""
        asked = approval.ask(self.ledger, number, gate, question)
        run = self.ledger.folder
        if approval.waiting(self.ledger):
            self.say(f"round {number}: waiting for `coevolve approve|revise|abort {run}`")
        answer = approval.wait(self.ledger, asked)
        if answer.decision == "abort":
            raise Stopped(f"aborted at the {gate} of round {number}: {answer.note}")
        if answer.decision == "revise":
            return answer.note or "revise"
        return answer.note if gate == "completion" else ""

    def end(self, how: str, **facts: Any) -> None:
        """Record the end of the run, once."""
        if self.ledger.last().kind != how:
            self.ledger.note(how, **facts)
