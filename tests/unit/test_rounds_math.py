"""The rounds on math, with scripts for policies and our own rule as the engineer."""

from collections.abc import Collection, Sequence
from pathlib import Path

from coevolve.core.task import Task
from coevolve.domains.registry import get_domain
from coevolve.engineers.frontier import FrontierEngineer
from coevolve.engines.base import Observe, Result, Stage
from coevolve.evolution.measuring import Measuring
from coevolve.evolution.rounds import Rounds
from coevolve.harness.experiment import make_experiment
from coevolve.ledger.ledger import Ledger
from coevolve.policies.scripted import ScriptedPolicy

MATH = get_domain("math")


class Pretended:
    """An engine whose rounds end with these policies, one after the other."""

    def __init__(self, *policies: str) -> None:
        self.policies = policies

    def train(self, stage: Stage, tasks: Sequence[Task], observe: Observe | None = None) -> Result:
        assert {task.split for task in tasks} == {"train"}
        return Result(policy=self.policies[int(stage.folder.parent.name)], steps=1, rollouts=8)

    def check(self, model: str, scripts: Collection[str]) -> None:
        pass


def test_frontier_makes_solved_math_harder(tmp_path: Path) -> None:
    experiment = make_experiment(
        {
            "domain": "math", "policy": "careless", "rounds": 3, "start": "default",
            "recipe": {"steps": 2, "tasks": 4}, "measured": {"dev": 160, "gate": 60},
            "backtest": {"on": False},
        },
        "test",
    )  # fmt: skip
    measuring = Measuring(experiment, MATH, lambda name: (ScriptedPolicy(MATH, name), ""))
    ledger = Ledger.create(tmp_path / "run", experiment.model_dump(mode="json"))
    rounds = Rounds(
        experiment, ledger, MATH, Pretended("oracle", "silent", "oracle"),
        lambda checkpoint: {"frontier": FrontierEngineer}, measuring,
    )  # fmt: skip
    standing = rounds.run()
    verdicts = [past.verdict.split(":")[0] for past in standing.history]
    assert verdicts == ["kept", "reverted", "kept"]
    assert standing.policy == "oracle"
    digits = [past.knobs["digits"] for past in standing.history]
    assert digits[1] > digits[0] == MATH.space.defaults()["digits"]
    assert rounds.ledger.state() == "done"
