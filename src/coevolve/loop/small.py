"""The policy `small` of a plan: made from scratch and taught before the run begins, once.

Invariant: the same domain, style and lessons give the same folder, which every run beside it uses.
"""

import json
import re
from pathlib import Path

from coevolve.core.seeds import derive, digest
from coevolve.core.splits import Split
from coevolve.domains.base import Domain
from coevolve.domains.knobs import Knobs
from coevolve.engines.base import Engine, Observe, Stage
from coevolve.harness.plan import SMALL, Plan
from coevolve.harness.recipe import Recipe
from coevolve.loop.run import Say
from coevolve.store.files import alone

OFTEN = 10
"""So often may a small policy be taught the same task before that is told."""


def with_small(
    plan: Plan, domain: Domain, runs: Path, engine: Engine, observe: Observe | None, say: Say
) -> Plan:
    """The plan with the folder of its small policy, if it begins with one."""
    if plan.policy != SMALL:
        return plan
    rule = plan.small
    knobs = domain.space.parse(rule.knobs or plan.target.knobs)
    key = json.dumps([domain.name, plan.style, dict(knobs), rule.model_dump()], sort_keys=True)
    folder = runs / SMALL / f"{short(domain.name)}-{digest(key, size=4).hex()}"
    folder.mkdir(parents=True, exist_ok=True)
    policy = folder / "taught" / "policy"
    with alone(folder):  # two runs may want the same one
        if not (folder / "taught" / "result.json").is_file():
            teach(plan, domain, knobs, folder, engine, observe, say)
    return plan.model_copy(update={"policy": str(policy)})


def short(name: str) -> str:
    """A domain's name as that of a folder: of an address or a file its last part."""
    last = name.partition("?")[0].rstrip("/").rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last)[:60]


def teach(
    plan: Plan, domain: Domain, knobs: Knobs, folder: Path, engine: Engine,
    observe: Observe | None, say: Say,
) -> None:  # fmt: skip
    """Fresh weights, and what they learn of solved tasks; broken off, it goes on."""
    rule, fresh = plan.small, folder / "fresh"
    if not fresh.is_dir():
        from coevolve.pocket.small import make_small  # transformers: seconds

        part = folder / "fresh.part"
        weights = make_small(domain, knobs, plan.style, part, rule.seed)
        part.rename(fresh)
        say(f"made a policy of {weights:,} weights for {domain.name}, in {folder}")
    recipe = Recipe(steps=rule.steps, tasks=rule.tasks, learning_rate=rule.learning_rate)
    stage = Stage(
        kind="warm", model=str(fresh), recipe=recipe, style=plan.style, seed=rule.seed,
        folder=folder / "taught",
    )  # fmt: skip
    seed = derive(rule.seed, "tasks")
    tasks = list(domain.generate(knobs, recipe.distinct, seed, Split.TRAIN))
    say(f"teaching it on {len(tasks):,} solved tasks, {rule.steps} steps")
    different = len({task.id for task in tasks})
    if len(tasks) > OFTEN * different:
        say(
            f"beware: there are {different:,} different tasks, so it sees each about "
            f"{len(tasks) // different} times and may learn them by heart: give it more of them, "
            "or fewer steps"
        )
    engine.train(stage, tasks, observe)
