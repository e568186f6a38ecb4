"""Training under a harness: tasks from its knobs, a stage on them, and what that took."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.engineering.mixing import with_lessons
from coevolve.engines.base import Engine, Observe, Result, Stage
from coevolve.evidence.cells import Cell, cells_of
from coevolve.evidence.stages import stage_rollouts
from coevolve.evolution.run import Run, Standing
from coevolve.harness.budget import Spent
from coevolve.harness.experiment import Plan
from coevolve.harness.harness import Harness
from coevolve.harness.recipe import Recipe


class Trained(NamedTuple):
    """What came of a stage."""

    result: Result
    cells: tuple[Cell, ...]
    """Its rollouts, by all labels."""


def train(run: Run, number: int, standing: Standing) -> Trained:
    """The first phase of a round."""
    harness = Harness(knobs=dict(standing.knobs), recipe=run.experiment.recipe)

    def work() -> dict[str, Any]:
        run.say(f"round {number}: training on tasks by {standing.author}")
        folder, seed = run.folder(number, "stage"), seed_of(run, number)
        stage = stage_of(run.experiment, harness, standing.policy, seed, folder)
        lessons = run.experiment.lessons
        return train_stage(run.engine, run.domain, stage, harness, run.observe, lessons)

    recorded = run.ledger.phase(number, "train", work)
    return Trained(
        Result.model_validate(recorded["result"]),
        tuple(Cell.model_validate(cell) for cell in recorded["cells"]),
    )


def seed_of(run: Run, number: int) -> int:
    """What the training of a round is drawn from."""
    return derive(run.experiment.seed, "round", number)


def stage_of(plan: Plan, harness: Harness, policy: str, seed: int, folder: Path) -> Stage:
    """The stage that a harness describes."""
    return Stage(
        kind="grpo", model=policy, recipe=harness.recipe, reward=harness.reward,
        filters=harness.filters, style=plan.style, processes=plan.processes, seed=seed,
        folder=folder,
    )  # fmt: skip


def own_tasks(
    domain: Domain, knobs: Mapping[str, float], recipe: Recipe, seed: int, lessons: float = 0.0
) -> list[Task]:
    """What a stage with this seed trains on, but for lessons; a `KnobError` if that cannot be."""
    count, workers = recipe.steps * recipe.tasks, os.cpu_count() or 1
    wanted, drawn = count - round(lessons * count), derive(seed, "tasks")
    return list(domain.generate(domain.space.parse(knobs), wanted, drawn, Split.TRAIN, workers))


def train_stage(
    engine: Engine,
    domain: Domain,
    stage: Stage,
    harness: Harness,
    observe: Observe | None,
    lessons: float = 0.0,
) -> dict[str, Any]:
    """Generate the tasks of a stage and train on them; what is recorded of it.

    Lessons in engineering among them are trained on, but are no evidence about the domain.
    """
    began = time.monotonic()
    own = own_tasks(domain, harness.knobs, stage.recipe, stage.seed, lessons)
    tasks = with_lessons(own, stage.recipe.steps * stage.recipe.tasks, derive(stage.seed, "tasks"))
    found = engine.train(stage, tasks, observe)
    spent = Spent(rollouts=found.rollouts, tokens=found.tokens, seconds=time.monotonic() - began)
    return {
        "result": found.model_dump(mode="json"),
        "cells": [cell.model_dump() for cell in cells_of(stage_rollouts(stage.folder, own))],
        "spent": spent.model_dump(),
    }
