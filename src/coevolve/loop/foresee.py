"""What a run will take of memory and disk, said before it begins, by the engine that trains it.

Invariant: what cannot fit is refused before anything is recorded, so that the same command with
another setting may take the same folder.
"""

from pathlib import Path

from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.domains.base import Domain
from coevolve.engines.base import Engine, Foresees, Stage
from coevolve.harness.comparison import trainings
from coevolve.harness.plan import SMALL, Plan
from coevolve.loop.run import Say

TASKS = 8
"""Whose prompts are counted."""


def foresee(
    plan: Plan, domain: Domain, engine: Engine, folder: Path, say: Say, runs: int = 1,
    here: bool = True,
) -> None:  # fmt: skip
    """Say what so many runs like this one will take, if that is much; `here` tells whether this
    machine trains them."""
    if plan.policy == SMALL or not isinstance(engine, Foresees):
        return
    stage = Stage(
        kind="grpo", model=plan.policy, recipe=plan.recipe, style=plan.style,
        processes=plan.all_processes, cluster=plan.cluster, sharding=plan.sharding, folder=folder,
    )  # fmt: skip
    knobs, seed = domain.space.parse(plan.knobs), derive(plan.seed, "foresee")
    tasks = list(domain.generate(knobs, TASKS, seed, Split.TRAIN))
    if line := engine.foresee(stage, tasks, runs * trainings(plan), here):
        say(line)
