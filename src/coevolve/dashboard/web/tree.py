"""Where the versions of a lineage go in a picture of it.

Invariant: a child is right of its parent, and no two versions share a place.
"""

from collections.abc import Sequence
from typing import NamedTuple

from coevolve.evaluation.paired import Difference

ACROSS, DOWN, MARGIN = 58, 34, 24


class Node(NamedTuple):
    """A version."""

    version: int
    parent: int | None
    merged: tuple[int, ...]
    verdict: str
    reason: str
    author: str
    factor: str
    hypothesis: str
    change: Difference | None
    phases: tuple[str, ...]


class Spot(NamedTuple):
    """A version in the picture."""

    node: Node
    x: float
    y: float


class Tree(NamedTuple):
    """The whole picture, in pixels."""

    width: int
    height: int
    spots: list[Spot]
    lines: list[tuple[float, float, float, float, bool]]
    """From parent to child; the last tells whether it is a merge."""


def layout(nodes: Sequence[Node]) -> Tree:
    """Depth to the right, branches downwards; the line of the kept runs along the top."""
    known = {node.version for node in nodes}
    children: dict[int | None, list[Node]] = {}
    for node in nodes:
        own = node.parent if node.parent in known and node.parent != node.version else None
        children.setdefault(own, []).append(node)
    placed: dict[int, Spot] = {}
    lowest: dict[int, int] = {}
    """For each depth, the first free row."""

    def free(depth: int, least: int) -> int:
        return max(least, lowest.get(depth, 0))

    stack = [(node, 0, 0) for node in reversed(order(children.get(None, [])))]
    while stack:
        node, depth, row = stack.pop()
        if node.version in placed:
            continue
        row = free(depth, row)
        lowest[depth] = row + 1
        placed[node.version] = Spot(node, MARGIN + depth * ACROSS, MARGIN + row * DOWN)
        stack += [
            (child, depth + 1, row) for child in reversed(order(children.get(node.version, [])))
        ]
    for node in nodes:  # what is not reached, such as a ring of parents in a damaged record
        if node.version not in placed:
            row = free(0, 0)
            lowest[0] = row + 1
            placed[node.version] = Spot(node, MARGIN, MARGIN + row * DOWN)
    lines = [
        (placed[above].x, placed[above].y, spot.x, spot.y, above != spot.node.parent)
        for spot in placed.values()
        for above in (spot.node.parent, *spot.node.merged)
        if above is not None and above in placed and above != spot.node.version
    ]
    width = max((spot.x for spot in placed.values()), default=0) + MARGIN + 12
    height = max((spot.y for spot in placed.values()), default=0) + MARGIN + 6
    spots = [placed[node.version] for node in nodes]
    return Tree(int(width), int(height), spots, lines)


def order(nodes: list[Node]) -> list[Node]:
    """The kept first, so that the line of the incumbent is straight."""
    return sorted(nodes, key=lambda node: (node.verdict not in ("kept", "root"), node.version))
