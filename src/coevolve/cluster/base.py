"""The cluster protocol: one piece of work, done in many folders.

Work is named as MODULE:FUNCTION, so that any process on any machine can find it, and takes a
folder. Invariant: all that work leaves is in its folder, and done again it goes on where it was.
"""

import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Protocol

from coevolve.core.errors import CoevolveError, EngineError
from coevolve.store.jobs import Work

LOG = "log.txt"
"""In a folder: everything that the work said there."""


class Ended(NamedTuple):
    """Work in one folder is over."""

    folder: Path
    failure: str
    """Why it failed, empty if it did not."""


class Cluster(Protocol):
    """Anywhere that work can be done."""

    def run(
        self, work: str, folders: Sequence[Path], tick: Callable[[], None]
    ) -> Generator[Ended, None, None]:
        """Do the work in every folder; each is told as it ends, in any order.

        Work that was lost with its process or machine is begun again. `tick` is called about once
        a second. When the iterator is closed, all work ends.
        """
        ...


def in_cluster(cluster: Cluster) -> Work:
    """Train versions side by side, wherever a cluster has room."""
    from coevolve.loop.train import WORK

    def work(folders: Sequence[Path]) -> None:
        with closing(cluster.run(WORK, folders, lambda: None)) as ended:
            failures = [(folder, failure) for folder, failure in ended if failure]
        for folder, failure in failures:
            raise EngineError(f"{folder.name} failed: {failure} (see {folder / LOG})")

    return work


def perform(work: str, folder: Path) -> str:
    """Do the work in this process, with all that it says in the log; why it failed, if it did."""
    with (
        (folder / LOG).open("a", encoding="utf-8", buffering=1) as log,
        redirect_stdout(log),
        redirect_stderr(log),
    ):
        try:
            module, _, function = work.partition(":")
            getattr(import_module(module), function)(folder)
        except CoevolveError as error:
            print(f"error: {error}")
            return str(error)
        except Exception as error:  # whatever one arm does, the others go on
            traceback.print_exc()
            return f"{type(error).__name__}: {error}".rstrip(": ")
    return ""
