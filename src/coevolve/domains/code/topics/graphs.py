"""Graphs and grids."""

import random
from typing import Any

from coevolve.domains.code.template import Argument, Template

GRID = Argument("grid", "words")
NODES, EDGES = Argument("nodes", "int"), Argument("edges", "rows")


def grid(rng: random.Random, size: int, kind: str, wall: str) -> list[Any]:
    """A rectangle of walls and free cells; its first and last cell are free."""
    if kind == "large":
        height = width = size
    else:
        side = max(2, int(size**0.5) + 1)
        height = 1 if kind == "edge" else rng.randint(2, side + 1)
        width = rng.randint(1 if kind == "edge" else 2, side + 2)
    share = rng.choice((0.0, 0.9)) if kind == "edge" else 0.25
    rows = [[wall if rng.random() < share else "." for _ in range(width)] for _ in range(height)]
    rows[0][0] = rows[-1][-1] = "."
    return [["".join(row) for row in rows]]


def edges(rng: random.Random, size: int, kind: str, weighted: bool) -> list[Any]:
    """A sparse graph, with loops and repeated edges among the awkward ones."""
    nodes = 1 if kind == "edge" and rng.random() < 0.3 else max(2, size)
    count = nodes * 3 // 4 if not weighted else 2 * nodes
    rows = []
    for _ in range(rng.choice((0, count)) if kind == "edge" else count):
        a, b = rng.randrange(nodes), rng.randrange(nodes)
        if kind == "edge":
            b = rng.choice((a, b))
        rows.append([a, b, rng.randint(1, 20)] if weighted else [a, b])
    if kind == "large" and weighted:  # a long chain, listed backwards, is worst for plain rounds
        rows = [[i, i + 1, 1 + i % 7] for i in reversed(range(nodes - 1))]
    return [nodes, rows]


TEMPLATES = (
    Template(
        name="leaper",
        takes=(GRID,),
        draw=lambda rng: {
            "a": rng.randint(0, 3),
            "b": rng.randint(1, 4),
            "wall": rng.choice("#xO@"),
        },
        statement=(
            "A piece stands in the top left cell of a grid of free cells (`.`) and walls "
            "(`{wall}`). In one move it goes one cell up, down, left or right, or it leaps: {a} "
            "cells along one axis and {b} along the other, in any of the directions. It may leap "
            "over walls but neither stand on one nor leave the grid. The result is the least "
            "number of moves to the bottom right cell, or -1 if it cannot get there."
        ),
        reference="""\
def core(grid):
    from collections import deque

    height, width = len(grid), len(grid[0])
    steps = {(0, 1), (1, 0), (0, -1), (-1, 0)}
    for p, q in ((<<a>>, <<b>>), (<<b>>, <<a>>)):
        steps |= {(p, q), (p, -q), (-p, q), (-p, -q)}
    distance, queue = {(0, 0): 0}, deque([(0, 0)])
    while queue:
        row, column = queue.popleft()
        for down, right in steps:
            r, c = row + down, column + right
            if 0 <= r < height and 0 <= c < width and grid[r][c] == "." and (r, c) not in distance:
                distance[r, c] = distance[row, column] + 1
                queue.append((r, c))
    return distance.get((height - 1, width - 1), -1)
""",
        inputs=lambda rng, size, kind, p: grid(rng, size, kind, p["wall"]),
        large=70,
    ),
    Template(
        name="components",
        takes=(NODES, EDGES),
        draw=lambda rng: {"s": rng.randint(1, 4), "m": rng.randint(1_000, 9_999)},
        statement=(
            "A graph has nodes 0 to `nodes` - 1 and undirected edges, given as pairs of nodes. "
            "The result is the sum of the squares of the sizes of all connected parts with at "
            "least {s} nodes, modulo {m}."
        ),
        reference="""\
def core(nodes, edges):
    near = [[] for _ in range(nodes)]
    for a, b in edges:
        near[a].append(b)
        near[b].append(a)
    seen, total = [False] * nodes, 0
    for start in range(nodes):
        stack, size = [] if seen[start] else [start], 0
        seen[start] = True
        while stack:
            size += 1
            for other in near[stack.pop()]:
                if not seen[other]:
                    seen[other] = True
                    stack.append(other)
        total += size * size if size >= <<s>> else 0
    return total % <<m>>
""",
        brute="""\
def core(nodes, edges):
    part = list(range(nodes))
    for a, b in edges:
        old, new = part[a], part[b]
        for i in range(nodes):
            if part[i] == old:
                part[i] = new
    total = 0
    for name in range(nodes):
        size = 0
        for i in range(nodes):
            size += part[i] == name
        total += size * size if size >= <<s>> else 0
    return total % <<m>>
""",
        inputs=lambda rng, size, kind, p: edges(rng, size, kind, False),
        large=12_000,
    ),
    Template(
        name="toll_roads",
        takes=(NODES, EDGES),
        draw=lambda rng: {"a": rng.randint(1, 9), "b": rng.randint(0, 9)},
        statement=(
            "Towns 0 to `nodes` - 1 are joined by one-way roads; each entry of `edges` is from, "
            "to, length. A road of length x costs {a} * x + {b}. The result is the sum of the "
            "least costs from town 0 to every town that can be reached from it."
        ),
        reference="""\
def core(nodes, edges):
    import heapq

    near = [[] for _ in range(nodes)]
    for a, b, length in edges:
        near[a].append((b, <<a>> * length + <<b>>))
    best, heap = {}, [(0, 0)]
    while heap:
        cost, town = heapq.heappop(heap)
        if town in best:
            continue
        best[town] = cost
        for other, price in near[town]:
            if other not in best:
                heapq.heappush(heap, (cost + price, other))
    return sum(best.values())
""",
        brute="""\
def core(nodes, edges):
    best = {0: 0}
    for _ in range(nodes):
        changed = False
        for a, b, length in edges:
            if a in best and best[a] + <<a>> * length + <<b>> < best.get(b, 10**18):
                best[b] = best[a] + <<a>> * length + <<b>>
                changed = True
        if not changed:
            break
    return sum(best.values())
""",
        inputs=lambda rng, size, kind, p: edges(rng, size, kind, True),
        large=10_000,
    ),
    Template(
        name="islands",
        takes=(GRID,),
        draw=lambda rng: {
            "s": rng.randint(1, 6),
            "wall": rng.choice("#xO@"),
            "corners": rng.choice((True, False)),
        },
        statement=(
            "Cells of a grid are water (`.`) or land (`{wall}`). Land cells that share a side "
            "belong to one island; those that only share a corner [corners:do so too|do not]. The "
            "result is the number of islands with at least {s} cells, times 100, plus the size of "
            "the largest island (0 without land)."
        ),
        reference="""\
def core(grid):
    land = {(r, c) for r, row in enumerate(grid) for c, mark in enumerate(row) if mark != "."}
    steps = [(0, 1), (1, 0), (0, -1), (-1, 0)]
    if <<corners>>:
        steps += [(1, 1), (1, -1), (-1, 1), (-1, -1)]
    large = largest = 0
    while land:
        stack, size = [land.pop()], 0
        while stack:
            row, column = stack.pop()
            size += 1
            for down, right in steps:
                if (row + down, column + right) in land:
                    land.remove((row + down, column + right))
                    stack.append((row + down, column + right))
        large += size >= <<s>>
        largest = max(largest, size)
    return 100 * large + largest
""",
        inputs=lambda rng, size, kind, p: grid(rng, size, kind, p["wall"]),
        large=100,
    ),
)
