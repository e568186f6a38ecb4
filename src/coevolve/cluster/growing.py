"""Versions of a tree that grow side by side, in processes or on a Ray cluster."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from coevolve.cluster.base import LOG, Cluster
from coevolve.core.errors import EngineError
from coevolve.evolution.growing import WORK, Grow


def in_cluster(cluster: Cluster) -> Grow:
    """Grow versions wherever a cluster has room."""

    def work(folders: Sequence[Path]) -> None:
        with closing(cluster.run(WORK, folders, lambda: None)) as ended:
            failures = [(folder, failure) for folder, failure in ended if failure]
        for folder, failure in failures:
            raise EngineError(f"{folder.name} failed: {failure} (see {folder / LOG})")

    return work
