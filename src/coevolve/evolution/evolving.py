"""The tree: versions grow from the best valid one, each by one patch, and are judged.

    diagnose → propose → design → backtest → train → dev → gate → learn → the next generation

Every version is trained from the first policy under its own harness, so that a patch is compared
with its absence and not with less training; and the base policy is measured too, which a tree ends
with unless a version is better. Every phase is recorded before the next begins, and
reads only what is recorded: a run that is killed anywhere and resumed grows the same tree.
"""

from coevolve.evolution.best import Best
from coevolve.evolution.generation import next_generation
from coevolve.evolution.isolation import hold_to
from coevolve.evolution.learning import begin_skills
from coevolve.evolution.planting import plant
from coevolve.evolution.supervision import Stopped
from coevolve.evolution.tree import Tree

FIRST = ("patch", "check", "diagnose")
"""Phases that a generation may begin with."""


class Evolving(Tree):
    """One run."""

    word = "version"

    @property
    def planned(self) -> int:
        return self.evolution.versions

    @property
    def title(self) -> str:
        chosen = self.evolution
        return f"{chosen.name}: {', '.join(chosen.trainers)} on {chosen.domain}"

    def run(self) -> Best:
        """All versions, from wherever the ledger says that the run is; what it has come to."""
        with self.ledger.writing():
            hold_to(self)
            begin_skills(self)
            plant(self)
            try:
                while len(self.trained) < self.evolution.versions:
                    self.supervision.check_budget(len(self.versions), *FIRST)
                    next_generation(self)
                self.end("done")
            except Stopped as stop:
                self.say(f"stopped: {stop}")
                self.end("stopped", reason=str(stop))
        return self.best

    def end(self, how: str, **facts: str) -> None:
        best = self.best
        self.supervision.end(
            how, policy=self.best_policy, version=best.version, words=best.words, **facts
        )
