"""The baseline that does nothing."""

from coevolve.engineers.base import Proposal, View
from coevolve.engineers.signals import summary


class FixedEngineer:
    """Keeps the incumbent, whatever happens."""

    name = "fixed"

    def propose(self, view: View, seed: int) -> list[Proposal]:
        return [Proposal(explanation=f"{summary(view)} The knobs stay as they are.")]
