"""Work as tasks of a Ray cluster, with the CPUs and GPUs that each asks for.

Invariant: work that was lost with its worker or its machine is begun again elsewhere, and reads
where it was from its folder. All machines see the same folders and have the same Python.
"""

import json
import logging
import os
import signal
import socket
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coevolve.cluster.base import Ended, perform
from coevolve.core.environment import own_settings
from coevolve.core.errors import UserError
from coevolve.harness.rules import ClusterRule
from coevolve.store.jobs import JOB

Piece = tuple[float, float]
"""CPUs and GPUs of a machine, or that something asks for on one."""
LOCAL = "local"
"""Instead of an address: a cluster of this machine alone, for this command alone."""


class RayCluster:
    """A Ray cluster, connected to while work is going on."""

    def __init__(
        self, address: str, cpus: float = 2.0, gpus: float = 0.0, retries: int = 5
    ) -> None:
        self.address, self.cpus, self.gpus, self.retries = address, cpus, gpus, retries

    def run(
        self, work: str, folders: Sequence[Path], tick: Callable[[], None]
    ) -> Generator[Ended, None, None]:
        waiting, running = deque(folders), dict[Any, Path]()
        rule = max(map(rule_of, folders), key=lambda rule: rule.workers, default=ClusterRule())
        # Ray Train counts a machine's CPUs and GPUs as free for workers whose number may change.
        cpus, gpus = (0.0, 0.0) if rule.least_workers else (self.cpus, self.gpus)
        with connected(self.address) as ray:
            at_once = room_at_once(ray, (cpus, gpus), rule, len(folders))
            # One piece of work per process, as on one machine: memory stays apart.
            task = ray.remote(
                num_cpus=cpus, num_gpus=gpus, max_retries=self.retries, max_calls=1,
                scheduling_strategy="SPREAD", runtime_env={"env_vars": own_settings()},
            )(perform)  # fmt: skip
            try:
                while waiting or running:
                    while waiting and len(running) < at_once:
                        folder = waiting.popleft()
                        running[task.remote(work, folder)] = folder
                    done, _ = ray.wait(list(running), timeout=1.0)
                    for reference in done:
                        folder = running.pop(reference)
                        yield Ended(folder, outcome(ray, reference))
                    tick()
            finally:
                for reference in running:
                    ray.cancel(reference, force=True)


def room_at_once(ray: Any, own: Piece, rule: ClusterRule, most: int) -> int:
    """How much work may be given to Ray: all of it, but where stages span machines, no more than
    there is room for with all workers. Each would hold what others wait for."""
    check_room(ray, [own], "an arm asks", "--cpus or --gpus")
    if not rule.workers:
        return most
    asks = f"work with its {rule.workers} workers asks"
    fix = "cluster.workers, --cpus or --gpus"
    return check_room(ray, [own, *pieces_of(rule)], asks, fix, most)


@contextmanager
def spanning(address: str, rule: ClusterRule) -> Iterator[None]:
    """A Ray cluster for the workers of a stage."""
    with connected(address) as ray:
        asks = f"a stage with {rule.workers} workers asks"
        check_room(ray, pieces_of(rule), asks, "--workers, --cpus or --gpus")
        yield


def rule_of(folder: Path) -> ClusterRule:
    """How the stages of a job span machines."""
    found = json.loads((folder / JOB).read_bytes()) if (folder / JOB).exists() else {}
    return ClusterRule.model_validate(found.get("plan", {}).get("cluster", {}))


def pieces_of(rule: ClusterRule) -> list[Piece]:
    """What workers ask for, as many as a stage begins with at least."""
    few = rule.least_workers or rule.workers
    return [(rule.cpus_per_worker, rule.gpus_per_worker)] * few


def check_room(ray: Any, pieces: list[Piece], asks: str, fix: str, most: int = 1) -> int:
    """How often all pieces fit, at most; refused if never: Ray would wait for larger machines."""
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    sizes = [(found.get("CPU", 0.0), found.get("GPU", 0.0)) for found in machines]
    if times := room(sizes, pieces, most):
        return times
    cpus, gpus = (sum(numbers) for numbers in zip(*pieces, strict=True))
    there = ", ".join(f"{cpus:g} CPUs and {gpus:g} GPUs" for cpus, gpus in sizes)
    raise UserError(
        f"{asks} for {cpus:g} CPUs and {gpus:g} GPUs, and the machines of the Ray cluster have no "
        f"room for that ({there}); lower {fix}"
    )


def room(machines: Sequence[Piece], pieces: Sequence[Piece], most: int) -> int:
    """How often all pieces fit on the machines beside each other, each on one."""
    free = [list(machine) for machine in machines]
    for times in range(most):
        for cpus, gpus in pieces:
            place = next((one for one in free if one[0] >= cpus and one[1] >= gpus), None)
            if place is None:
                return times
            place[0] -= cpus
            place[1] -= gpus
    return most


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray, for as long as it is needed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise UserError("--ray needs Ray: pip install 'coevolve[cluster]'") from None
    check_address(address)
    terminated = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise no_cluster(address, error) from None
    finally:
        signal.signal(signal.SIGTERM, terminated)  # Ray puts its own there
    try:
        yield ray
    finally:
        ray.shutdown()


def check_address(address: str) -> None:
    """Ray tries for minutes to reach a machine that is not there."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:
        return  # a word that Ray knows
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError, ValueError) as error:
        raise no_cluster(address, error) from None


def no_cluster(address: str, error: Exception) -> UserError:
    return UserError(
        f"no Ray cluster at '{address}': {error}; start one with `ray start --head`, or use "
        "--ray local"
    )


def outcome(ray: Any, reference: Any) -> str:
    """Why a task failed, empty if it did not."""
    try:
        failure: str = ray.get(reference)
    except ray.exceptions.RayError as error:
        return f"lost for good: {type(error).__name__}: {str(error).strip().splitlines()[0]}"
    return failure
