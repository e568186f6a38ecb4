"""The pocket policy: a small language model that knows the lake, and how it is built.

Importing this package, or its vocabulary, needs nothing but the standard library.
"""

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from coevolve.core.errors import UserError


def folder() -> Path:
    """Where the shipped model lies: a transformers folder with `build.json` and `rates.json`."""
    weights = Path(str(files(__name__))) / "weights"
    if not (weights / "model.safetensors").is_file():
        raise UserError(
            f"the pocket policy has no weights at {weights}; build them with "
            f"`coevolve pocket build --output {weights}`"
        )
    return weights


class Progress(NamedTuple):
    """How far one stage of long work has come."""

    stage: str
    """'demonstrations' or 'training'."""
    done: int
    total: int
    loss: float | None = None
    """Nats per answer token; None while there is nothing to learn yet."""


Watch = Callable[[Progress], None]


def silent(_progress: Progress) -> None:
    """Say nothing."""
