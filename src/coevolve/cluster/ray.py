"""Work as tasks of a Ray cluster, with the CPUs and GPUs that each asks for.

Invariant: work that was lost with its worker or its machine is begun again elsewhere, and reads
where it was from its folder. All machines see the same folders and have the same Python.
"""

import logging
import os
import signal
import socket
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coevolve.cluster.base import Ended, perform
from coevolve.core.errors import UserError

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
        with connected(self.address) as ray:
            self.check_room(ray)
            # One piece of work per process, as on one machine: memory stays apart.
            task = ray.remote(
                num_cpus=self.cpus, num_gpus=self.gpus, max_retries=self.retries, max_calls=1,
                scheduling_strategy="SPREAD", runtime_env={"env_vars": settings()},
            )(perform)  # fmt: skip
            running = {task.remote(work, folder): folder for folder in folders}
            try:
                while running:
                    done, _ = ray.wait(list(running), timeout=1.0)
                    for reference in done:
                        folder = running.pop(reference)
                        yield Ended(folder, outcome(ray, reference))
                    tick()
            finally:
                for reference in running:
                    ray.cancel(reference, force=True)

    def check_room(self, ray: Any) -> None:
        """Ray would wait forever for a machine that is large enough."""
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if not any(
            found.get("CPU", 0) >= self.cpus and found.get("GPU", 0) >= self.gpus
            for found in machines
        ):
            sizes = ", ".join(
                f"{found.get('CPU', 0):g} CPUs and {found.get('GPU', 0):g} GPUs"
                for found in machines
            )
            raise UserError(
                f"an arm asks for {self.cpus:g} CPUs and {self.gpus:g} GPUs, and no machine of "
                f"the Ray cluster has them ({sizes}); lower --cpus or --gpus"
            )


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


def settings() -> dict[str, str]:
    """What was set for this program on this machine holds on the others too."""
    return {name: value for name, value in os.environ.items() if name.startswith("COEVOLVE_")}
