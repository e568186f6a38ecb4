"""Checkpoints at an address: an object store, or any other storage that fsspec knows.

Each machine has them in a folder of its own, and sends what it writes. Invariant: a checkpoint
counts once its mark is at the address; that is sent last.
"""

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coevolve.core.errors import EngineError, UserError, words_of


class Mirror:
    """A folder of this machine, and what of it is at an address."""

    def __init__(self, address: str, here: Path, first: bool = True) -> None:
        self.address, self.here = address, here
        self.first = first
        """Of several processes of a machine one fetches and sends."""
        self.storage, self.root = storage_of(address)

    def send(self, folder: Path) -> None:
        """All files of a folder that lies here."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.send_file(path)

    def send_file(self, path: Path) -> None:
        place = f"{self.root}/{path.relative_to(self.here).as_posix()}"
        with self.named():
            self.storage.makedirs(place.rpartition("/")[0], exist_ok=True)
            self.storage.put_file(str(path), place)

    def fetch(self, mark: str) -> None:
        """Have here the folders that have their mark there, and nothing else."""
        self.clear()
        self.here.mkdir(parents=True)
        for name in self.names():
            place = f"{self.root}/{name}"
            with self.named():
                if self.storage.exists(f"{place}/{mark}"):
                    self.storage.get(f"{place}/", f"{self.here / name}/", recursive=True)

    def clear(self) -> None:
        """Leave nothing here."""
        shutil.rmtree(self.here, ignore_errors=True)

    def keep(self, names: Collection[str]) -> None:
        """Drop all others there."""
        for name in self.names():
            if name not in names:
                with self.named():
                    self.storage.rm(f"{self.root}/{name}", recursive=True)

    def names(self) -> list[str]:
        """The folders there."""
        with self.named():
            self.storage.invalidate_cache()  # other machines write there, too
            if not self.storage.exists(self.root):
                return []
            found = self.storage.ls(self.root, detail=False)
        return sorted(path.rstrip("/").rpartition("/")[2] for path in found)

    @contextmanager
    def named(self) -> Iterator[None]:
        """Say what failed, and how to go on."""
        try:
            yield
        except Exception as error:  # a named capture point: each storage has errors of its own
            raise EngineError(
                f"cannot keep checkpoints at {self.address}: {words_of(error)}; the same command "
                "goes on from the last one that is whole"
            ) from None


def storage_of(address: str) -> tuple[Any, str]:
    """The storage behind an address, and the folder in it."""
    from fsspec.core import url_to_fs

    try:
        storage, root = url_to_fs(address)
    except (ImportError, ValueError) as error:  # a package that is not there; no such storage
        raise UserError(f"cluster.checkpoints = '{address}': {error}") from None
    return storage, root.rstrip("/")


def check_storage(address: str) -> None:
    """Refuse an address that nothing can be written to."""
    storage, root = storage_of(address)
    probe = f"{root}/.probe"
    try:
        storage.makedirs(root, exist_ok=True)
        storage.pipe_file(probe, b"probe")
        storage.rm_file(probe)
    except Exception as error:  # a named capture point, as above
        raise UserError(
            f"cluster.checkpoints = '{address}': nothing can be written there: {words_of(error)}"
        ) from None
