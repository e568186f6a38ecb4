"""A small whole run: scripts for policies, and an engine that pretends to train them.

What a stage ends with follows from what a test wants: a list of scripts by version, or a script by
the recipe's temperature, so that patches of it are good or bad. Training rollouts are real attempts
of that script.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from coevolve.core.task import Task
from coevolve.domains.registry import get_domain
from coevolve.engineers.base import Engineer, View, change_knobs
from coevolve.engines.base import Observe, Result, Stage
from coevolve.evaluation.attempts import attempts
from coevolve.harness.patch import Patch
from coevolve.harness.plan import make_plan
from coevolve.harness.proposal import Proposal
from coevolve.loop.run import Run
from coevolve.loop.train import one_by_one
from coevolve.policies.base import Completion, Policy, Prompt, Sampling
from coevolve.policies.script import ScriptedPolicy
from coevolve.store.gauge import Gauge
from coevolve.store.ledger import Ledger
from coevolve.store.lineage import plan_of
from coevolve.store.rollouts import write

LAKE = get_domain("lake")
SMALL = {"size3.data_ratio": 0.5, "size4.data_ratio": 0.5, "agents3.share": 1.0}
STEPS = 4
BY_TEMPERATURE = {1.0: "greedy", 0.9: "prioritised", 0.8: "random", 0.7: "greedy"}
HOSTILE = (
    "</script></style></title><script>alert(1)</script><img src=x onerror=alert(2)>"
    '"\'><a href="javascript:alert(3)">{{ 7 * 7 }}\u202e'
)
"""What a model may write to get out of wherever it is shown."""

ROUNDS: dict[str, Any] = {
    "recipe": {"steps": STEPS, "tasks": 4, "group": 8}, "budget": {"rollouts": 10_000},
    "backtest": {"tasks": 8, "samples": 2, "on": False},
}  # fmt: skip
"""Training goes on, and what is no worse is kept."""
TREE: dict[str, Any] = {
    "versions": 4, "start_from": "base", "accept": "better", "factors": ["all"], "learn": True,
    "recipe": {"steps": 2, "tasks": 4, "group": 4}, "backtest": {"tasks": 8, "samples": 2},
}  # fmt: skip
"""Every version begins again, and what is better is kept."""


def metrics(number: int, step: int) -> dict[str, float]:
    """What the pretended engine says of a step."""
    return {
        "step": step, "reward": 0.1 * number + 0.01 * step, "valid": 0.5, "dead": 0.25,
        "entropy": 0.3, "tokens": 1000.0 * step, "seconds": 0.5,
    }  # fmt: skip


class Pretended:
    """An engine that writes down a script for a checkpoint."""

    def __init__(self, scripts: Sequence[str] = ()) -> None:
        self.scripts = scripts
        """By version; without any, the temperature decides."""
        self.trained: list[Stage] = []

    def train(self, stage: Stage, tasks: Sequence[Task], observe: Observe | None = None) -> Result:
        self.trained.append(stage)
        number = int(stage.folder.parent.name.partition("-")[0])
        policy = stage.folder / "policy"
        policy.mkdir(parents=True, exist_ok=True)
        script = self.scripts[number] if self.scripts else BY_TEMPERATURE[stage.recipe.temperature]
        (policy / "script").write_text(script)
        lines = [json.dumps(metrics(number, step)) for step in range(1, STEPS + 1)]
        (stage.folder / "steps.jsonl").write_text("\n".join(lines) + "\n")
        played = attempts(
            LAKE, ScriptedPolicy(LAKE, script), list(tasks)[:4], Sampling(seed=stage.seed),
            samples=stage.recipe.group,
        )  # fmt: skip
        rollouts = [one.model_copy(update={"group": one.task_id, "step": 1}) for one in played]
        write(rollouts, stage.folder / "rollouts" / "step-000001-0.parquet")
        return Result(
            policy=str(policy), steps=stage.recipe.steps, rollouts=32, tokens=4000, seconds=0.001
        )

    def check(self, model: str, scripts: Collection[str]) -> None:
        pass


class Saying:
    """An engineer that wants more holes, in given words."""

    name = "saying"

    def __init__(self, words: str = "more holes") -> None:
        self.words = words

    def propose(self, view: View, seed: int) -> list[Proposal]:
        more = {
            f"size{size}.hole_ratio": view.incumbent[f"size{size}.hole_ratio"] + 0.075
            for size in (3, 4)
        }
        return [
            change_knobs({**more, "no.such": 1}, self.words),
            Proposal(failure=f"had no second idea {self.words}"),
        ]


class Listed:
    """An engineer with a list of patches: those that it has not tried yet."""

    name = "listed"

    def __init__(self, *patches: Mapping[str, Any]) -> None:
        self.patches, self.asked = patches, 0

    def propose(self, view: View, seed: int) -> list[Patch]:
        self.asked += 1
        made = [one.patch for one in (*view.versions, *view.refused) if one.patch]
        tried = {(one.factor, str(one.value)) for one in made}
        return [
            Patch(**{"hypothesis": "If we try it, then we see.", **patch})
            for patch in self.patches
            if (patch["factor"], str(patch["value"])) not in tried
        ]


class Hostile:
    """A policy that answers with markup."""

    name = "hostile"

    def answer(self, prompts: list[Prompt], sampling: Sampling) -> list[Completion]:
        return [Completion(HOSTILE, seconds=0.001) for _ in prompts]


def load(name: str) -> tuple[Policy, str]:
    """A script by its name, or by the checkpoint that names it."""
    file = Path(name) / "script"
    script = file.read_text() if file.is_file() else name
    return (Hostile() if script == "hostile" else ScriptedPolicy(LAKE, script)), ""


def make_run(
    folder: Path,
    engineer: Engineer | None = None,
    scripts: Sequence[str] = ("prioritised", "random", "prioritised"),
    **changes: Any,
) -> Run:
    """A run of rounds that is ready to go; another plan with `**TREE`, where no scripts are given
    by version."""
    tree = changes.get("start_from") == "base"
    proposer = engineer or Saying()
    values = {
        "name": "test", "policy": "greedy", "versions": len(scripts), "knobs": SMALL,
        "target": {"dev": 24, "gate": 60, "knobs": SMALL}, **({} if tree else ROUNDS), **changes,
    }  # fmt: skip
    plan = make_plan(values, "test")
    ledger = Ledger.create(folder.resolve(), plan.model_dump(mode="json"))
    gauge = Gauge(plan_of(ledger), LAKE, load)
    engine = Pretended(() if tree else scripts)
    return Run(
        plan_of(ledger),
        ledger,
        gauge,
        lambda checkpoint: {proposer.name: lambda: proposer},
        one_by_one(engine, gauge, None),
    )


def temperature(value: float, **more: Any) -> dict[str, Any]:
    return {"factor": "recipe.temperature", "value": value, **more}
