"""The work of one arm of a comparison: its rounds, and then its last policy on fresh tasks.

Invariant: killed at any instant and begun again, it goes on from its last phase to the same result.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coevolve.core.errors import UserError
from coevolve.core.files import replace_file
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.engines.base import Engine
from coevolve.evaluation.arms import FILE, ArmResult, load_result
from coevolve.evaluation.paired import by_task
from coevolve.evidence.evaluations import hash_of_tasks
from coevolve.evolution.assembly import create
from coevolve.evolution.backtest import INCUMBENT
from coevolve.evolution.measuring import Measuring, measuring_of
from coevolve.harness.comparison import Job
from coevolve.ledger.budget import spent_so_far
from coevolve.ledger.files import WriterLock
from coevolve.ledger.ledger import Ledger
from coevolve.policies.base import tokens

JOB = "job.json"
"""In the folder of an arm: what is to be done there."""
PATIENCE_S = 120.0
"""How long an arm that was lost elsewhere may take to let go of its ledger."""

Say = Callable[[str], None]


def run_arm(folder: Path) -> None:
    """Do the job of a folder, training with TRL."""
    from coevolve.engines.trl.engine import TrlEngine

    finish(folder, TrlEngine())


def finish(folder: Path, engine: Engine, say: Say = print) -> None:
    """Do what is left of the job of a folder."""
    if load_result(folder) is not None:
        return
    job = Job.model_validate_json((folder / JOB).read_bytes())
    began = time.monotonic()
    policy: str = job.experiment.policy
    facts: dict[str, Any] = {"ended": "done"}
    measuring = None
    if job.trains:
        wait_for(folder, say)
        rounds = create(job.experiment, folder, engine, lambda progress: None, say)
        with rounds.ledger:
            policy = rounds.run().policy
            facts = read(rounds.ledger)
        measuring, began = rounds.measuring, time.monotonic()
    measuring = measuring or measuring_of(job.experiment)
    tasks = fresh(measuring, job.tasks)
    rollouts = measuring.measure(policy, tasks, folder / "final")
    facts["tokens"] = facts.get("tokens", 0) + tokens(rollouts)
    facts["seconds"] = facts.get("seconds", 0.0) + time.monotonic() - began
    result = ArmResult(
        job=job,
        policy=policy,
        tasks_hash=hash_of_tasks(tasks),
        valid=tuple(by_task(rollouts)),
        optimal=tuple(by_task(rollouts, "optimal")),
        **facts,
    )
    replace_file(folder / FILE, result.model_dump_json(indent=1).encode("utf-8"))
    say(f"finished: {sum(result.valid):.4g} of {len(tasks)} fresh tasks valid")


def fresh(measuring: Measuring, count: int) -> list[Task]:
    """Dev tasks that no engineer was shown results of and no gate has judged by."""
    shown = {task.id for task in measuring.dev}
    drawn = measuring.held_out(Split.DEV, count + len(shown), "compare")
    found = [task for task in drawn if task.id not in shown][:count]
    if len(found) < count:
        raise UserError(
            f"only {len(found)} of {count} fresh tasks differ from the dev tasks; lower `tasks`, "
            "or measure on knobs with more different tasks"
        )
    return found


def wait_for(folder: Path, say: Say) -> None:
    """Until nobody else writes the ledger: where a worker was lost, it may linger. Its database is
    not opened before, since two machines cannot share one."""
    lock, end = WriterLock(folder / "lock"), time.monotonic() + PATIENCE_S
    while (process := lock.holder()) is not None and time.monotonic() < end:
        say(f"waiting for process {process} to let go of {folder}")
        time.sleep(1.0)


def read(ledger: Ledger) -> dict[str, Any]:
    """What the ledger says that the arm did and took."""
    phases = ledger.events("phase")
    proposed = [e.payload["proposals"] for e in phases if e.phase and e.phase.startswith("propose")]
    ends = ledger.events("stopped") if ledger.state() == "stopped" else []
    spent = spent_so_far(ledger)

    def of(name: str) -> list[dict[str, Any]]:
        return [event.payload for event in phases if event.phase == name]

    return {
        "ended": str(ends[-1].payload.get("reason", "stopped")) if ends else "done",
        "calls": sum(len(answers) for answers in proposed),
        "unusable": sum(
            bool(one["failure"])
            for answers in proposed
            for many in answers.values()
            for one in many
        ),
        "taken": sum(choice["chosen"] != INCUMBENT for choice in of("backtest")),
        "reverted": sum(not verdict["keep"] for verdict in of("gate")),
        "train_rollouts": sum(one["spent"]["rollouts"] for one in of("train")),
        "probe_rollouts": sum(one["spent"]["rollouts"] for one in of("backtest")),
        "tokens": spent.tokens,
        "seconds": sum(event.seconds or 0.0 for event in phases),
        "money": spent.money,
    }
