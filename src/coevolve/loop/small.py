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
    """The plan with its small policy, which is taught now if it was not before, if it begins with
    one."""
    if plan.policy != SMALL:
        return plan
    folder = folder_of(plan, domain, runs)
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder):  # two runs may want the same one
        if not (folder / "taught" / "result.json").is_file():
            teach(plan, domain, folder, engine, observe, say)
    return named_small(plan, domain, runs)


def named_small(plan: Plan, domain: Domain, runs: Path) -> Plan:
    """A plan that begins with a small policy, with its name; it need not be there yet."""
    policy = folder_of(plan, domain, runs) / "taught" / "policy"
    lora = 0 if plan.recipe.lora == "auto" else plan.recipe.lora
    recipe = plan.recipe.model_copy(update={"lora": lora})
    return plan.model_copy(update={"policy": str(policy), "recipe": recipe})


def folder_of(plan: Plan, domain: Domain, runs: Path) -> Path:
    key = json.dumps(
        [domain.name, plan.style, dict(knobs_of(plan, domain)), plan.small.model_dump()],
        sort_keys=True,
    )
    return runs / SMALL / f"{short(domain.name)}-{digest(key, size=4).hex()}"


def knobs_of(plan: Plan, domain: Domain) -> Knobs:
    """Of the tasks that it is taught on."""
    return domain.space.parse(plan.small.knobs or plan.target.knobs)


def short(name: str) -> str:
    """A domain's name as that of a folder: of an address or a file its last part."""
    last = name.partition("?")[0].rstrip("/").rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last)[:60]


def teach(
    plan: Plan, domain: Domain, folder: Path, engine: Engine, observe: Observe | None, say: Say
) -> None:
    """Fresh weights, and what they learn of solved tasks; broken off, it goes on."""
    rule, fresh, knobs = plan.small, folder / "fresh", knobs_of(plan, domain)
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
