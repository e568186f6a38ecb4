"""What sequences have in common."""

from collections.abc import Sequence
from itertools import takewhile
from typing import TypeVar

One = TypeVar("One")


def alike(one: Sequence[One], other: Sequence[One]) -> list[One]:
    """What two sequences begin with."""
    pairs = zip(one, other, strict=False)
    return [first for first, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
