"""The work of one arm of a comparison: its run, and then its last policy on fresh tasks.

Invariant: killed at any instant and begun again, it goes on from its last phase to the same result.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coevolve.core.errors import UserError
from coevolve.core.names import lookup
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.engines.base import Engine
from coevolve.engines.registry import get_engine
from coevolve.evaluation.arms import ArmResult
from coevolve.evaluation.difference import by_task
from coevolve.harness.budget import Spent
from coevolve.harness.comparison import Job
from coevolve.loop.create import create
from coevolve.loop.loop import run_loop
from coevolve.loop.run import Say
from coevolve.policies.base import tokens
from coevolve.store.evaluations import hash_of_tasks
from coevolve.store.files import WriterLock
from coevolve.store.gauge import Gauge, gauge_of
from coevolve.store.jobs import finish, job_of, result_of
from coevolve.store.ledger import Ledger
from coevolve.store.lineage import Lineage, lineage_of
from coevolve.store.spent import spent_so_far

WORK = "coevolve.loop.compare:run_arm"
"""For a cluster."""
PATIENCE_S = 120.0
"""How long an arm that was lost elsewhere may take to let go of its ledger."""


def run_arm(folder: Path) -> None:
    """Do the job of a folder, with the engine that its plan names."""
    job = job_of(folder, Job)
    assert job is not None
    finish_arm(folder, get_engine(job.plan.engine))


def finish_arm(folder: Path, engine: Engine, say: Say = print) -> None:
    """Do what is left of the job of a folder."""
    if result_of(folder, ArmResult):
        return
    job = job_of(folder, Job)
    assert job is not None
    began, policy, gauge = time.monotonic(), job.plan.policy, None
    facts: dict[str, Any] = {"ended": "done"}
    if job.trains:
        WriterLock(folder / "lock").wait(PATIENCE_S, say)
        run = create(job.plan, folder, say=say, engine=engine)
        with run.ledger:
            best = run_loop(run).best
            policy = run.lineage.policy(best.version if best else None)
            facts = read(run.ledger)
        gauge, began = run.gauge, time.monotonic()
    gauge = gauge or gauge_of(job.plan)
    tasks = gauge.target.listed(job.final) if job.final else fresh(gauge, job.tasks)
    rollouts = gauge.measure(policy, tasks, folder / "final")
    facts["tokens"] = facts.get("tokens", 0) + tokens(rollouts)
    facts["seconds"] = facts.get("seconds", 0.0) + time.monotonic() - began
    result = ArmResult(
        job=job,
        policy=policy,
        tasks_hash=hash_of_tasks(tasks),
        valid=tuple(by_task(rollouts)),
        optimal=tuple(by_task(rollouts, "optimal")),
        kinds=tuple(kind_of(task, job.by) for task in tasks) if job.by else (),
        **facts,
    )
    finish(folder, result)
    say(f"finished: {sum(result.valid):.4g} of {len(tasks)} tasks valid")


def kind_of(task: Task, by: Sequence[str]) -> str:
    """Some labels of a task."""
    return ", ".join(f"{name} {lookup('label', name, task.bucket)}" for name in by)


def fresh(gauge: Gauge, count: int) -> list[Task]:
    """Dev tasks that no engineer was shown results of and no gate has judged by."""
    shown = {task.id for task in gauge.dev}
    drawn = gauge.target.held_out(Split.DEV, count + len(shown), "compare")
    found = [task for task in drawn if task.id not in shown][:count]
    if len(found) < count:
        raise UserError(
            f"only {len(found)} of {count} fresh tasks differ from the dev tasks; lower `tasks`, "
            "or give a target with more different tasks"
        )
    return found


def read(ledger: Ledger) -> dict[str, Any]:
    """What the ledger says that the arm did and took."""
    lineage = lineage_of(ledger)
    ends = ledger.events("stopped") if ledger.state() == "stopped" else []
    spent, trained = spent_so_far(ledger), spent_on_training(lineage)
    asked = sum(len(phase.proposals) for one in lineage.generations for phase in one.proposed)
    return {
        "ended": str(ends[-1].payload.get("reason", "stopped")) if ends else "done",
        "calls": asked,
        "unusable": sum(bool(one.failure) for one in lineage.proposals),
        "taken": sum(one.patch is not None for one in lineage.versions),
        "reverted": sum(not one.valid for one in lineage.versions),
        "train_rollouts": trained.rollouts,
        "train_tokens": trained.tokens,
        "probe_rollouts": sum(one.probed.rollouts for one in lineage.generations),
        "tokens": spent.tokens,
        "seconds": sum(event.seconds or 0.0 for event in ledger.events("phase")),
        "money": spent.money,
    }


def spent_on_training(lineage: Lineage) -> Spent:
    """What versions, controls and twins have drawn in training."""
    versions = [node.train.spent for node in lineage.nodes if node.train]
    return sum(versions + list(lineage.noise.trained if lineage.noise else ()), Spent())
