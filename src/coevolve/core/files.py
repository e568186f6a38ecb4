"""Files of ours: replaced whole or not at all, and where those are kept that can be made again."""

import os
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Write a file beside its place, then put it there; its folder is made if need be."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def settle(folder: Path) -> None:
    """Have everything in a folder on the disk, where a power cut leaves it."""
    for path in (*folder.rglob("*"), folder):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError:
            if not path.is_dir():  # folders cannot be waited for on every file system
                raise
        finally:
            os.close(descriptor)


def cache_root() -> Path:
    """Where this user's files go that can be made again."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "coevolve"


def storable(text: str) -> str:
    """The text with half surrogate pairs replaced, which no file or request can carry."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
