"""Where the versions of a lineage go in a picture of it.

Invariant: a child is right of its parent, and no two versions share a place.
"""

from collections.abc import Sequence
from typing import NamedTuple

from coevolve.harness.version import Version

DOWN, MARGIN = 46, 26
FEW, WIDE, NARROW = 24, 132, 58
"""Up to so many versions have room for what they change; the distance with and without it."""


class Spot(NamedTuple):
    """A version in the picture."""

    version: int
    x: float
    y: float


class Diagram(NamedTuple):
    """The whole picture, in pixels."""

    width: int
    height: int
    spots: list[Spot]
    lines: list[tuple[float, float, float, float, bool]]
    """From parent to child; the last tells whether it is a merge."""
    labelled: bool


def layout(versions: Sequence[Version]) -> Diagram:
    """Depth to the right, branches downwards; the line of the kept runs along the top."""
    labelled = len(versions) <= FEW
    across = WIDE if labelled else NARROW
    known = {one.number for one in versions}
    children: dict[int | None, list[Version]] = {}
    for one in versions:
        parent = one.parent
        own = parent if parent in known and parent != one.number else None
        children.setdefault(own, []).append(one)
    placed: dict[int, Spot] = {}
    lowest: dict[int, int] = {}
    """For each depth, the first free row."""

    def put(one: Version, depth: int, least: int) -> int:
        row = max(least, lowest.get(depth, 0))
        lowest[depth] = row + 1
        x = MARGIN + (across - NARROW) / 2 + depth * across
        placed[one.number] = Spot(one.number, x, MARGIN + row * DOWN)
        return row

    stack = [(one, 0, 0) for one in reversed(order(children.get(None, [])))]
    while stack:
        one, depth, row = stack.pop()
        if one.number in placed:
            continue
        row = put(one, depth, row)
        inner = reversed(order(children.get(one.number, [])))
        stack += [(child, depth + 1, row) for child in inner]
    for one in versions:  # what is not reached, such as a ring of parents in a damaged record
        if one.number not in placed:
            put(one, 0, 0)
    lines = [
        (placed[above].x, placed[above].y, *placed[one.number][1:], above != one.parent)
        for one in versions
        for above in (one.parent, *one.merged)
        if above is not None and above in placed and above != one.number
    ]
    width = max((spot.x for spot in placed.values()), default=0) + MARGIN + across / 2
    height = max((spot.y for spot in placed.values()), default=0) + MARGIN + 10
    spots = [placed[one.number] for one in versions]
    return Diagram(int(width), int(height), spots, lines, labelled)


def order(versions: list[Version]) -> list[Version]:
    """The kept first, so that the line of the front version is straight."""
    return sorted(versions, key=lambda one: (not one.valid, one.number))
