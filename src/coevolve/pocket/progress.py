"""What long work says of itself while it runs."""

from collections.abc import Callable
from typing import NamedTuple


class Progress(NamedTuple):
    """How far one stage has come."""

    stage: str
    """'demonstrations' or 'training'."""
    done: int
    total: int
    loss: float | None = None
    """Nats per answer token; None while there is nothing to learn yet."""


Watch = Callable[[Progress], None]


def silent(_progress: Progress) -> None:
    """Say nothing."""
