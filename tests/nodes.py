"""What tests of clusters share: Ray nodes that are all this machine, and one that is lost."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

TESTS = str(Path(__file__).parent)


@contextmanager
def ray_nodes(*cpus: int) -> Iterator[Any]:
    """A cluster of nodes with so many CPUs each; the first is the head."""
    pytest.importorskip("ray", reason="needs the extra `cluster`")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", TESTS, prepend=os.pathsep)
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": cpus[0]})
        for number in cpus[1:]:
            cluster.add_node(num_cpus=number)
        yield cluster
        cluster.shutdown()


def freeze(node: Any) -> list[int]:
    """Whatever runs on a machine stands still at once, and never ends its work; its processes."""
    found = children_of(node.all_processes["raylet"][0].process.pid)
    for process in found:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGSTOP)
    return found


def lose(cluster: Any, node: Any) -> None:
    """A machine is no more."""
    lost = freeze(node)
    cluster.remove_node(node, allow_graceful=False)
    for process in lost:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def children_of(process: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == process:
                found.append(int(path.parent.name))
    return found
