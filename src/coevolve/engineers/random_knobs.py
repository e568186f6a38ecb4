"""The baseline that knows nothing."""

from coevolve.core.seeds import derive
from coevolve.engineers.base import View, change_knobs
from coevolve.engineers.signals import summary
from coevolve.harness.proposal import Proposal


class RandomEngineer:
    """Draws all knobs at random, without a look at the evidence."""

    name = "random"

    def propose(self, view: View, seed: int) -> list[Proposal]:
        knobs = view.space.random(derive(seed, "random engineer", view.last.number))
        explanation = f"{summary(view)} All {len(knobs)} knobs are drawn at random."
        return [change_knobs(knobs, explanation)]
