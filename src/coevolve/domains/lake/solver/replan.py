"""Shortest paths of single agents under their rules, and the conflicts between them."""

from typing import NamedTuple

import numpy as np

from coevolve.domains.lake.compile import Table, Words, compiled, kernel, lowest_bit
from coevolve.domains.lake.solver.layers import (
    DOWN,
    ONE,
    RIGHT,
    ZERO,
    Lake,
    arrival,
    backward,
    may_move,
)
from coevolve.domains.lake.solver.rules import FAR, Paths, Rules, position


class Scratch(NamedTuple):
    """Buffers that are overwritten for every node."""

    layers: Words
    buffers: Words
    pairs: Words
    scores: Table
    occupied: Table
    leaving: Table
    distance: Table
    ready: Table


@compiled
def make_scratch(lake: Lake, distance: Table, horizon: int) -> Scratch:
    agents, height = distance.shape[0], lake.free.shape[0]
    cells = height * lake.width
    return Scratch(
        np.empty((agents, horizon, height), np.uint64),
        np.empty((4, horizon, height), np.uint64),
        np.empty((3, cells, height), np.uint64),
        np.empty((horizon, cells, 2), np.int64),
        np.zeros((horizon, cells), np.int64),
        np.full((horizon, cells), -1, np.int64),
        distance,
        np.zeros(agents, np.int64),
    )


@kernel
def mark(paths: Paths, lengths: Table, agent: int, length: int, scratch: Scratch, on: bool) -> None:
    """Enter the other agents' paths in the tables of occupied cells, or take them out again."""
    for other in range(lengths.shape[0]):
        if other == agent or lengths[other] < 0:
            continue
        for t in range(length + 1):
            cell = paths[other, min(t, lengths[other])]
            if on:
                scratch.occupied[t, cell] += 1
                scratch.leaving[t, cell] = paths[other, min(t + 1, lengths[other])]
            else:
                scratch.occupied[t, cell] = 0
                scratch.leaving[t, cell] = -1


@kernel
def choose_path(
    lake: Lake,
    banned: Table,
    length: int,
    agent: int,
    start: int,
    paths: Paths,
    lengths: Table,
    scratch: Scratch,
) -> None:
    """Write the path through buffers[1] that runs into the fewest other agents."""
    height, width = lake.free.shape[0], lake.width
    layers, scores = scratch.buffers[1], scratch.scores
    occupied, leaving = scratch.occupied, scratch.leaving
    mark(paths, lengths, agent, length, scratch, True)
    for t in range(length - 1, -1, -1):
        for r in range(height):
            word = layers[t, r]
            while word != ZERO:
                c = lowest_bit(word)
                cell = r * width + c
                word &= word - ONE
                best = FAR
                for direction in range(5 if lake.wait else 4):
                    row, column = r + DOWN[direction], c + RIGHT[direction]
                    if (
                        row < 0
                        or row >= height
                        or column < 0
                        or column >= width
                        or (layers[t + 1, row] >> np.uint64(column)) & ONE == ZERO
                    ):
                        continue
                    target = row * width + column
                    score = occupied[t + 1, target]
                    if t + 1 < length:
                        score += scores[t + 1, target, 0]
                    if leaving[t, target] == cell and target != cell:
                        score += 1
                    if score < best and (banned.shape[0] == 0 or may_move(banned, cell, target, t)):
                        best = score
                        scores[t, cell, 1] = target
                scores[t, cell, 0] = best
    mark(paths, lengths, agent, length, scratch, False)
    cell = start
    for t in range(length):
        paths[agent, t] = cell
        cell = scores[t, cell, 1]
    paths[agent, length] = cell
    lengths[agent] = length


@kernel
def shortest(
    lake: Lake, slot: int, agent: int, starts: Table, goals: Table, rules: Rules, scratch: Scratch
) -> int:
    """The length of an agent's shortest path under the rules in `slot`; fills buffers[0]."""
    return arrival(
        lake,
        starts[agent],
        goals[agent],
        rules.allowed[slot],
        rules.settled[slot],
        rules.banned[slot, : rules.banned_counts[slot]],
        max(rules.least[slot], scratch.distance[agent]),
        rules.most[slot],
        scratch.buffers[0],
    )


@kernel
def replan(
    lake: Lake,
    agent: int,
    starts: Table,
    goals: Table,
    paths: Paths,
    lengths: Table,
    rules: Rules,
    scratch: Scratch,
) -> int:
    """Give an agent a shortest path under its rules; its length, or why there is none."""
    length = shortest(lake, agent, agent, starts, goals, rules, scratch)
    if length >= 0:
        banned = rules.banned[agent, : rules.banned_counts[agent]]
        backward(lake, scratch.buffers[0], goals[agent], banned, length, scratch.buffers, 1)
        choose_path(lake, banned, length, agent, starts[agent], paths, lengths, scratch)
    return length


@kernel
def conflict_of(paths: Paths, lengths: Table, a: int, b: int, time: int) -> int:
    """0: none at `time`; 1: both in one cell; 2: a swap between `time` and the next step."""
    here_a, here_b = position(paths, lengths, a, time), position(paths, lengths, b, time)
    if here_a == here_b:
        return 1
    if here_a == position(paths, lengths, b, time + 1) and here_b == position(
        paths, lengths, a, time + 1
    ):
        return 2
    return 0


@kernel
def count_conflicts(paths: Paths, lengths: Table) -> int:
    """Number of pairs of agents in conflict."""
    total = 0
    for a in range(lengths.shape[0]):
        for b in range(a):
            for t in range(max(lengths[a], lengths[b]) + 1):
                if conflict_of(paths, lengths, a, b, t) > 0:
                    total += 1
                    break
    return total
