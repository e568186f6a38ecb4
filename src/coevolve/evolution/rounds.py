"""The rounds: train, measure, judge, and let an engineer redesign the environment.

    generate tasks from the knobs → train → dev → gate → propose → project → backtest → next round

Every phase is recorded in the ledger before the next begins, and reads only what is recorded: a run
that is killed anywhere and resumed takes the same decisions.
"""

from coevolve.evolution.deciding import begin, complete, decide
from coevolve.evolution.redesigning import redesign
from coevolve.evolution.run import Run, Standing
from coevolve.evolution.supervision import Stopped
from coevolve.evolution.training import train


class Rounds(Run):
    """One run."""

    word = "round"

    @property
    def planned(self) -> int:
        return self.experiment.rounds

    @property
    def title(self) -> str:
        return (
            f"{self.experiment.name}: {', '.join(self.experiment.engineers)} on {self.domain.name}"
        )

    def run(self) -> Standing:
        """All rounds, from wherever the ledger says that the run is."""
        with self.ledger.writing():
            standing = begin(self)
            try:
                for number in range(self.experiment.rounds):
                    self.supervision.check_budget(number, "train")
                    trained = train(self, number, standing)
                    standing = decide(self, number, standing, trained)
                    standing = complete(self, number, standing)
                    if number + 1 < self.experiment.rounds:
                        standing = redesign(self, number, standing)
                self.supervision.end("done", policy=standing.policy)
            except Stopped as stop:
                self.say(f"stopped: {stop}")
                self.supervision.end("stopped", policy=standing.policy, reason=str(stop))
        return standing
