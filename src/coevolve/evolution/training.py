"""The first phase of a round: tasks from the knobs, and training on them."""

import os
import time
from typing import Any, NamedTuple

from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.engines.base import Result, Stage
from coevolve.evidence.cells import Cell, cells_of
from coevolve.evidence.stages import stage_rollouts
from coevolve.evolution.run import Run, Standing
from coevolve.harness.budget import Spent


class Trained(NamedTuple):
    """What came of a stage."""

    result: Result
    cells: tuple[Cell, ...]
    """Its rollouts, by all labels."""


def train(run: Run, number: int, standing: Standing) -> Trained:
    """Generate the round's tasks and train on them."""
    seed = derive(run.experiment.seed, "round", number)
    recipe, folder = run.experiment.recipe, run.folder(number, "stage")

    def work() -> dict[str, Any]:
        run.say(f"round {number}: training on tasks by {standing.author}")
        began = time.monotonic()
        stage = Stage(
            kind="grpo", model=standing.policy, recipe=recipe, style=run.experiment.style,
            seed=seed, folder=folder,
        )  # fmt: skip
        count, workers = recipe.steps * recipe.tasks, os.cpu_count() or 1
        chosen = derive(seed, "tasks")
        tasks = list(run.domain.generate(standing.knobs, count, chosen, Split.TRAIN, workers))
        found = run.engine.train(stage, tasks, run.observe)
        work_s = time.monotonic() - began
        cells = cells_of(stage_rollouts(folder, tasks))
        spent = Spent(rollouts=found.rollouts, tokens=found.tokens, seconds=work_s)
        return {
            "result": found.model_dump(mode="json"),
            "cells": [cell.model_dump() for cell in cells],
            "spent": spent.model_dump(),
        }

    recorded = run.ledger.phase(number, "train", work)
    return Trained(
        Result.model_validate(recorded["result"]),
        tuple(Cell.model_validate(cell) for cell in recorded["cells"]),
    )
