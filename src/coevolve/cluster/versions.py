"""Versions that train side by side, in processes or on a Ray cluster."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from coevolve.cluster.base import LOG, Cluster
from coevolve.core.errors import EngineError
from coevolve.loop.train import WORK
from coevolve.store.jobs import Work


def in_cluster(cluster: Cluster) -> Work:
    """Train versions wherever a cluster has room."""

    def work(folders: Sequence[Path]) -> None:
        with closing(cluster.run(WORK, folders, lambda: None)) as ended:
            failures = [(folder, failure) for folder, failure in ended if failure]
        for folder, failure in failures:
            raise EngineError(f"{folder.name} failed: {failure} (see {folder / LOG})")

    return work
