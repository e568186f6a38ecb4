"""Runs as golden records describe them: policies of known skill, an engine that ends with them.

A record (tests/golden/*.json) holds a plan in the words of two loops, rounds and trees, which the
one loop has replaced, and every decision that they took. Here such a run is made again.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pretended import BY_TEMPERATURE, LAKE, Listed, Saying

from coevolve.core.seeds import derive
from coevolve.core.task import Task
from coevolve.engineers.base import Engineer, View, change_knobs
from coevolve.engineers.library import SkillLibrary
from coevolve.engineers.registry import make_engineer
from coevolve.engineers.rules import RulesEngineer
from coevolve.engines.base import Observe, Result, Stage
from coevolve.evaluation.attempts import attempts
from coevolve.harness.plan import Plan, make_plan
from coevolve.harness.proposal import Proposal
from coevolve.harness.recipe import Recipe
from coevolve.loop.run import Run
from coevolve.loop.train import one_by_one
from coevolve.policies.base import Completion, Policy, Prompt, Sampling
from coevolve.policies.script import ScriptedPolicy
from coevolve.store.gauge import Gauge
from coevolve.store.ledger import Ledger
from coevolve.store.lineage import Lineage, Node
from coevolve.store.rollouts import write

GOLDEN = Path(__file__).parent / "golden"
RATES: dict[str, dict[int, float]] = {
    "novice": {3: 0.95, 4: 0.9, 5: 0.6, 6: 0.4},
    "adept": {3: 1.0, 4: 0.95, 5: 0.8, 6: 0.7},
    "coin": dict.fromkeys(range(3, 33), 0.5),
}
"""By the cells a side of a task; 0.1 for those not named."""


def records(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
    return found


def chance(*parts: str | int) -> float:
    """A number from 0 to 1 that follows from the parts."""
    return derive(0, *parts) / 2**63


class Share:
    """`share-P`: solves this share of all tasks, always the same ones; of two, the larger share
    solves whatever the smaller one does."""

    def __init__(self, name: str) -> None:
        self.name, self.share = name, float(name.removeprefix("share-"))

    def answer(self, prompts: list[Prompt], sampling: Sampling) -> list[Completion]:
        return [
            Completion(LAKE.oracle(one.task) if chance("share", one.task.id) < self.share else "")
            for one in prompts
            if one.task
        ]


class Chancy:
    """`novice`, `adept`, `coin`: solves a task in so many attempts, each by its own luck."""

    def __init__(self, name: str) -> None:
        self.name, self.rates = name, RATES[name]

    def answer(self, prompts: list[Prompt], sampling: Sampling) -> list[Completion]:
        found = []
        for one in prompts:
            assert one.task
            rate = self.rates.get(int(one.task.bucket["size"]), 0.1)
            drawn = chance("chancy", sampling.seed, one.task.id, one.sample)
            found.append(Completion(LAKE.oracle(one.task) if drawn < rate else ""))
        return found


def load(name: str) -> tuple[Policy, str]:
    """By its name, or by the checkpoint whose file `script` names it."""
    file = Path(name) / "script"
    name = file.read_text() if file.is_file() else name
    if name.startswith("share-"):
        return Share(name), ""
    return (Chancy(name) if name in RATES else ScriptedPolicy(LAKE, name)), ""


Name = Callable[[Stage, Sequence[Task]], str]


class Playing:
    """An engine whose stages end with the policy that `name_of` says; its attempts at the first
    four tasks are the rollouts."""

    def __init__(self, name_of: Name, stopped: Mapping[str, str], rollouts: bool = True) -> None:
        self.name_of, self.stopped, self.rollouts = name_of, stopped, rollouts

    def train(self, stage: Stage, tasks: Sequence[Task], observe: Observe | None = None) -> Result:
        folder, name = stage.folder / "policy", self.name_of(stage, tasks)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "script").write_text(name)
        if self.rollouts:
            played = attempts(
                LAKE, load(name)[0], list(tasks)[:4], Sampling(seed=stage.seed),
                samples=stage.recipe.group,
            )  # fmt: skip
            rollouts = [one.model_copy(update={"group": one.task_id, "step": 1}) for one in played]
            write(rollouts, stage.folder / "rollouts" / "step-000001-0.parquet")
        number, kl = str(int(stage.folder.parent.name)), f"kl {stage.recipe.kl:g}"
        return Result(
            policy=str(folder), steps=stage.recipe.steps, rollouts=32, tokens=4_000,
            stopped=self.stopped.get(number) or self.stopped.get(kl),
        )  # fmt: skip

    def check(self, model: str, scripts: Collection[str]) -> None:
        pass


def ending(policies: Any) -> Name:
    """What the engine of a record ends with: by version, always the same, or by the stage."""
    if isinstance(policies, list):
        return lambda stage, tasks: str(policies[int(stage.folder.parent.name)])
    if isinstance(policies, str):
        return lambda stage, tasks: policies
    if "temperature 0.9" in policies:
        return lambda stage, tasks: BY_TEMPERATURE[stage.recipe.temperature]

    def name_of(stage: Stage, tasks: Sequence[Task]) -> str:
        warm, large = f"temperature {stage.recipe.temperature:g}", False
        large = any(float(task.bucket["size"]) >= 5 for task in tasks)
        by_kl = policies.get(f"{warm}, kl {stage.recipe.kl:g}")
        return str(by_kl or policies.get(f"{warm}, large boards {large}", "greedy"))

    return name_of


class Impossible:
    """Wants boards of which there are none, although each knob could be so."""

    name = "impossible"

    def propose(self, view: View, seed: int) -> list[Proposal]:
        return [change_knobs({"detour.min": 2, "detour.max": 1}, "trust me")]


class Several:
    """Says the same twice, then nothing new, then two more."""

    name = "several"

    def propose(self, view: View, seed: int) -> list[Proposal]:
        wanted: list[dict[str, Any]] = [
            {"size3.hole_ratio": 0.3}, {"size3.hole_ratio": 0.3}, {}, {"size4.hole_ratio": 0.0},
        ]  # fmt: skip
        return [change_knobs(one, f"idea {i}") for i, one in enumerate(wanted)]


OWN: dict[str, Callable[[], Engineer]] = {
    "saying": Saying, "several": Several, "impossible": Impossible,
}  # fmt: skip


def plan_of(given: Mapping[str, Any]) -> Plan:
    """A plan in today's words."""
    values = dict(given)
    values["target"] = values.pop("measured")
    if tree := "harness" in values or "trainers" in values or "asks_after" in values:
        values |= {"start_from": "base", "accept": "better", "factors": ["all"], "learn": True}
        values |= values.pop("harness", {})
    else:
        values["versions"] = values.pop("rounds")
        values["candidates"] = 64
    values.pop("trainers", None)
    values["objective"] = {"protect": []}  # they looked at the valid rate alone
    values["gate"] = {"twins": 1, **values.get("gate", {})}  # what there was then by default
    values["backtest"] = {"by": "signal", **values.get("backtest", {})}
    values["backtest"].pop("most_forgotten", None)
    values.setdefault("reach", 0.15)
    return make_plan({**values, "engineers": ["rules" if tree else "fixed"]}, "a golden record")


def run_of(how: Mapping[str, Any], folder: Path) -> Run:
    """The run that a record is of."""
    plan = plan_of(how["plan"])
    ledger = Ledger.create(folder, plan.model_dump(mode="json"))
    gauge = Gauge(plan, LAKE, load)

    def made(one: Any) -> Engineer:
        if isinstance(one, dict):
            return Listed(*one["listed"])
        if one == "rules":
            return RulesEngineer(SkillLibrary(folder / "skills"))
        return OWN[one]() if one in OWN else make_engineer(one)

    team = [made(one) for one in how.get("engineers") or how["trainers"]]
    engine = Playing(ending(how["policies"]), how.get("stopped", {}), how.get("rollouts", True))
    return Run(
        plan, ledger, gauge, lambda _: {one.name: lambda one=one: one for one in team},  # type: ignore[misc]
        one_by_one(engine, gauge, None),
    )  # fmt: skip


def decisions(lineage: Lineage) -> list[dict[str, Any]]:
    """What was decided, in the form of a record."""
    return [decision(lineage, node) for node in lineage.nodes]


def decision(lineage: Lineage, node: Node) -> dict[str, Any]:
    version, usual = node.version, LAKE.space.defaults()
    assert node.gate
    knobs = {
        name: round(value, 9)
        for name, value in LAKE.space.parse(version.harness.knobs).items()
        if abs(value - usual[name]) > 1e-9
    }
    recipe, plain = version.harness.recipe.model_dump(), Recipe().model_dump()
    plain["lora"] = recipe["lora"]  # decided by the model's size
    return {
        "parent": version.parent,
        "author": version.author,
        "factor": version.patch.factor if version.patch else None,
        "gate": {"valid": node.gate.scores.valid, "n": node.gate.scores.n},
        "verdict": version.verdict,
        "reward": version.harness.reward,
        "recipe": {name: value for name, value in recipe.items() if value != plain[name]},
        "knobs": knobs,
    }
