"""The baseline that treats all kinds of tasks alike."""

from coevolve.engineers.base import View, change_knobs
from coevolve.engineers.signals import summary
from coevolve.harness.proposal import Proposal


class UniformEngineer:
    """Equal shares for all members of a group that are in use, now or by default."""

    name = "uniform"

    def propose(self, view: View, seed: int) -> list[Proposal]:
        knobs: dict[str, float] = {}
        told = []
        for group, members in view.space.groups.items():
            used = [n for n in members if view.incumbent[n] > 0 or view.space.knobs[n].default > 0]
            knobs |= {name: 1 / len(used) if name in used else 0.0 for name in members}
            told.append(f"{len(used)} of {group} get {1 / len(used):.3g} each")
        explanation = f"{summary(view)} Equal shares: {'; '.join(told) or 'no groups'}."
        return [change_knobs(knobs, explanation)]
