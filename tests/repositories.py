"""What tests of software engineering share: a small git repository made on the spot."""

from pathlib import Path

from coevolve.gallery.shop import CODE, TESTS, committed

__all__ = ["CODE", "TESTS", "committed", "shop"]


def shop(folder: Path) -> Path:
    """A small repository whose tests see nearly everything."""
    return committed(folder, {**CODE, **TESTS})
