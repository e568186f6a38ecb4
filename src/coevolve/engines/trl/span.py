"""Training that spans machines: Ray Train starts a worker for each process, wherever there is room.

The workers train as processes of one machine do, with ranks and addresses that Ray hands out.
Invariant: all that they share is the stage's folder, which every machine sees, and checkpoints,
which may be at an address. Lost with a worker or a machine are the steps since the last checkpoint,
from which all begin again: on what is left, if that has room, or once machines come back.
"""

import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

from coevolve.core.environment import own_settings
from coevolve.core.errors import EngineError, UserError, words_of
from coevolve.core.seeds import digest
from coevolve.engines.base import Observe, Result, Stage
from coevolve.engines.stage import Follower
from coevolve.engines.trl.folder import StageFolder, rank
from coevolve.engines.trl.launch import LOOK_EVERY_S
from coevolve.engines.trl.mirror import Mirror, check_storage
from coevolve.harness.recipe import Recipe
from coevolve.harness.rules import ClusterRule

RETRIES = 5
"""How often a stage is begun again whose workers were lost or could not reach each other; machines
that were taken away with notice are not counted."""
SILENCE_S = 30.0
"""Without a worker that trains, after which it is said what is waited for."""
RAY = ".ray"
"""In a stage's folder, while it trains: what Ray Train keeps for itself."""
Amounts = Mapping[str, float]


def span(stage: Stage, folder: StageFolder, observe: Observe | None) -> Result:
    """Have workers train, pass their progress on, and wait for the result."""
    fit = Fit(trainer_of(stage, folder))
    folder.forget_failure()
    follower = Follower(folder.steps, stage.recipe.steps, observe)
    wait = Wait(stage.cluster, in_cluster)
    fit.start()
    while fit.is_alive():
        time.sleep(LOOK_EVERY_S)
        follower.look()
        if line := wait.look(folder.has_workers(), time.monotonic()):
            print(line, file=sys.stderr)
    shutil.rmtree(folder.path / RAY, ignore_errors=True)
    if failure := folder.failure():
        raise EngineError(failure)
    result = folder.result()
    if result is None:
        raise EngineError(f"the workers of {folder.path} were lost for good: {fit.error}")
    return result


class Wait:
    """Says once what is waited for while no worker trains, and again when all were lost."""

    def __init__(self, rule: ClusterRule, resources: Callable[[], tuple[Amounts, Amounts]]) -> None:
        self.rule, self.resources = rule, resources
        self.since: float | None = None
        self.said = False

    def look(self, at_work: bool, now: float) -> str:
        """The line, where it is time for it."""
        if at_work:
            self.since, self.said = None, False
            return ""
        self.since = now if self.since is None else self.since
        if self.said or now - self.since < SILENCE_S:
            return ""
        self.said = True
        every, free = (
            words(found.get("CPU", 0), found.get("GPU", 0)) for found in self.resources()
        )
        few, rule = self.rule.least_workers or self.rule.workers, self.rule
        number = f"{few} to {rule.workers}" if few < rule.workers else str(rule.workers)
        return (
            f"waiting for {number} workers of {words(rule.cpus_per_worker, rule.gpus_per_worker)} "
            f"each; the Ray cluster has {every}, of which {free} are free"
        )


def words(cpus: float, gpus: float) -> str:
    return f"{cpus:g} CPUs and {gpus:g} GPUs"


def in_cluster() -> tuple[Amounts, Amounts]:
    """What all machines of the Ray cluster have, and what of it is free, by name."""
    ray: Any = import_module("ray")
    return ray.cluster_resources(), ray.available_resources()


class Fit(Thread):
    """Ray Train's own wait, beside which progress is passed on. It ends with its connection."""

    def __init__(self, trainer: Any) -> None:
        super().__init__(daemon=True)
        self.trainer, self.error = trainer, ""

    def run(self) -> None:
        try:
            self.trainer.fit()
        except Exception as error:  # told by who waits
            self.error = words_of(error).splitlines()[-1]


def trainer_of(stage: Stage, folder: StageFolder) -> Any:
    """Ray Train's trainer for a stage."""
    rule = stage.cluster
    if rule.checkpoints:  # before it is written down: a stage that has begun goes on there
        check_storage(rule.checkpoints)
    place = folder.place(rule.checkpoints)
    try:
        import ray

        train, torch = import_module("ray.train"), import_module("ray.train.torch")
    except ImportError as error:
        raise UserError(
            f"cluster.workers = {rule.workers} needs Ray Train ({error}): pip install "
            "'coevolve[cluster]'"
        ) from None
    if not ray.is_initialized():
        raise UserError(
            f"cluster.workers = {rule.workers} needs a Ray cluster; say where it is with --ray "
            "ADDRESS, or call ray.init first"
        )
    few, all_of_them = rule.least_workers, rule.workers
    return torch.TorchTrainer(
        work,
        train_loop_config={"folder": str(folder.path.resolve()), "checkpoints": place},
        scaling_config=train.ScalingConfig(
            num_workers=(few, all_of_them) if 0 < few < all_of_them else all_of_them,
            use_gpu=rule.gpus_per_worker > 0,
            resources_per_worker={
                "CPU": rule.cpus_per_worker,
                **({"GPU": rule.gpus_per_worker} if rule.gpus_per_worker else {}),
            },
        ),
        run_config=train.RunConfig(
            name="stage",
            storage_path=str(folder.path.resolve() / RAY),
            failure_config=train.FailureConfig(max_failures=RETRIES),
            worker_runtime_env={"env_vars": own_settings()},
        ),
    )


def work(config: dict[str, str]) -> None:
    """What each worker does: train, as one of as many as can share the rollouts of a step."""
    from ray.train.collective import barrier

    from coevolve.engines.trl.engine import TrlEngine

    folder = StageFolder(Path(config["folder"]))
    if folder.failure():
        return  # no attempt can mend it: whoever waits for this one tells it
    try:
        folder = StageFolder(folder.path, mirror_at(config["checkpoints"]))
        stage, tasks = folder.load()
        rollouts = stage.recipe.tasks * (stage.recipe.group if stage.kind == "grpo" else 1)
        processes = sharing(stage.recipe, rollouts, int(os.environ["WORLD_SIZE"]))
        with nullcontext() if rank() else folder.taken_over():
            barrier()  # nobody writes any more
            folder.fetch()
            if not rank():
                folder.sweep(processes)
            barrier()
            if processes < int(os.environ["WORLD_SIZE"]):
                regroup(processes)
            if rank() < processes:
                stage = stage.model_copy(update={"processes": processes})
                TrlEngine().run(stage, tasks, folder, None)
    except RuntimeError:
        raise  # a worker whose peer was lost fails, too: all begin again
    except Exception as error:
        folder.note_failure(error)
        raise
    finally:
        if folder.mirror and folder.mirror.first:
            folder.mirror.clear()


def mirror_at(place: str) -> Mirror | None:
    """The checkpoints of this machine, where they are kept at an address."""
    if not place:
        return None
    from torch import distributed

    machine = import_module("ray").get_runtime_context().get_node_id()
    machines = [""] * int(os.environ["WORLD_SIZE"])
    distributed.all_gather_object(machines, machine)
    own = f"coevolve-{digest(place, machine).hex()[:16]}"
    first = machines.index(machine) == rank()
    return Mirror(place, Path(tempfile.gettempdir()) / own, first)


def sharing(recipe: Recipe, rollouts: int, workers: int) -> int:
    """How many of the workers can have equal parts of the rollouts of a step."""
    for number in range(workers, 1, -1):
        try:
            recipe.own(rollouts, number)
        except UserError:
            continue
        return number
    return 1


def regroup(processes: int) -> None:
    """Leave some workers out, those of the highest ranks: the others meet at another address."""
    from ray.train.collective import broadcast_from_rank_zero
    from torch import distributed

    distributed.destroy_process_group()
    with socket.create_server(("", 0)) as free:
        port = broadcast_from_rank_zero(free.getsockname()[1])
    os.environ |= {"MASTER_PORT": str(port), "WORLD_SIZE": str(processes)}
