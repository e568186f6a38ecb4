"""A small whole tree: scripts for policies, and an engine that pretends to train them.

What a stage ends with follows from its recipe: `temperature` picks a script, so that patches of it
are good or bad as a test wants them. Training rollouts are real attempts of that script.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from coevolve.core.task import Task
from coevolve.domains.registry import get_domain
from coevolve.engineers.trainer import Lineage, Suggestion, Trainer
from coevolve.engines.base import Observe, Result, Stage
from coevolve.evaluation.attempts import attempts
from coevolve.evidence.store import write
from coevolve.evolution.evolving import Evolving
from coevolve.evolution.growing import one_by_one
from coevolve.evolution.measuring import Measuring
from coevolve.harness.evolution import make_evolution
from coevolve.ledger.ledger import Ledger
from coevolve.policies.base import Policy, Sampling
from coevolve.policies.scripted import ScriptedPolicy

LAKE = get_domain("lake")
SMALL = {"size3.data_ratio": 0.5, "size4.data_ratio": 0.5, "agents3.share": 1.0}
SCRIPTS = {1.0: "greedy", 0.9: "prioritised", 0.8: "random", 0.7: "greedy"}
"""By temperature."""


class Pretended:
    """An engine that writes down a script for a checkpoint."""

    def train(self, stage: Stage, tasks: Sequence[Task], observe: Observe | None = None) -> Result:
        policy = stage.folder / "policy"
        policy.mkdir(parents=True, exist_ok=True)
        script = SCRIPTS[stage.recipe.temperature]
        (policy / "script").write_text(script)
        played = attempts(
            LAKE, ScriptedPolicy(LAKE, script), list(tasks)[:4], Sampling(seed=stage.seed),
            samples=stage.recipe.group,
        )  # fmt: skip
        rollouts = [one.model_copy(update={"group": one.task_id, "step": 1}) for one in played]
        write(rollouts, stage.folder / "rollouts" / "step-000001-0.parquet")
        return Result(policy=str(policy), steps=stage.recipe.steps, rollouts=32, tokens=4_000)

    def check(self, model: str, scripts: Collection[str]) -> None:
        pass


class Listed:
    """A trainer with a list of patches: those that it has not tried yet."""

    name = "listed"

    def __init__(self, *patches: Mapping[str, Any]) -> None:
        self.patches, self.asked = patches, 0

    def propose(self, lineage: Lineage, seed: int) -> list[Suggestion]:
        self.asked += 1
        tried = {(one.patch.factor, str(one.patch.value)) for one in lineage.versions if one.patch}
        return [
            Suggestion(patch={"hypothesis": "If we try it, then we see.", **patch})
            for patch in self.patches
            if (patch["factor"], str(patch["value"])) not in tried
        ]


def load(name: str) -> tuple[Policy, str]:
    """A script by its name, or by the checkpoint that names it."""
    file = Path(name) / "script"
    return ScriptedPolicy(LAKE, file.read_text() if file.is_file() else name), ""


def make_tree(folder: Path, trainer: Trainer, **changes: Any) -> Evolving:
    """A tree that is ready to grow."""
    evolution = make_evolution(
        {
            "name": "test", "policy": "greedy", "versions": 4, "asks_after": 0,
            "harness": {"knobs": SMALL, "recipe": {"steps": 2, "tasks": 4, "group": 4}},
            "measured": {"dev": 24, "gate": 60, "knobs": SMALL},
            "backtest": {"tasks": 8, "samples": 2}, **changes,
        },
        "test",
    )  # fmt: skip
    measuring = Measuring(evolution, LAKE, load)
    return Evolving(
        evolution,
        Ledger.create(folder, evolution.model_dump(mode="json")),
        measuring,
        lambda checkpoint: {trainer.name: lambda: trainer},
        one_by_one(Pretended(), measuring, None),
        folder.parent / "skills",
    )


def temperature(value: float, **more: Any) -> dict[str, Any]:
    return {"factor": "recipe.temperature", "value": value, **more}
