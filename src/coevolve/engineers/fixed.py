"""The baseline that does nothing."""

from coevolve.engineers.base import View
from coevolve.engineers.signals import summary
from coevolve.harness.proposal import Proposal


class FixedEngineer:
    """Keeps the incumbent, whatever happens."""

    name = "fixed"

    def propose(self, view: View, seed: int) -> list[Proposal]:
        return [Proposal(words=f"{summary(view)} The knobs stay as they are.")]
