"""Replacing a file: the new content is there whole and on the disk, or the old one still is."""

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
