"""Drawing boards at random until one is what was asked for, and certifying it.

Everything a task holds follows from its own seed, so tasks can be made in any order, by any number
of processes. No loop is endless: a request that fails `attempts` times is reported with what came
nearest to it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coevolve.core.splits import PARTS
from coevolve.domains.lake.board import FREE, HOLE
from coevolve.domains.lake.canonical import fingerprint_in, make_forms, mix
from coevolve.domains.lake.compile import Table, Words, compiled, kernel
from coevolve.domains.lake.knobs import slack
from coevolve.domains.lake.solver.cbs import SOLVED
from coevolve.domains.lake.solver.certify import certify
from coevolve.domains.lake.solver.layers import ONE, ZERO, Lake, arrival, backward, distances
from coevolve.domains.lake.solver.pairs import compatible
from coevolve.domains.lake.solver.rules import FAR

NODES = 60
"""Search nodes a draw may cost; the few boards that need more are drawn again."""
HORIZON = 768
"""Longest path that is stored."""

Text = NDArray[np.uint8]
FREE_CODE, HOLE_CODE = ord(FREE), ord(HOLE)
UP_CODE, DOWN_CODE, LEFT_CODE, RIGHT_CODE, WAIT_CODE = (ord(name) for name in "UDLRW")

spare_cells = kernel(slack)


class Draws(NamedTuple):
    """The distributions tasks are drawn from."""

    sizes: Table
    size_shares: NDArray[np.float64]
    """Cumulative, like `agent_shares`."""
    hole_ratios: NDArray[np.float64]
    wait_ratios: NDArray[np.float64]
    agent_shares: NDArray[np.float64]
    """Entry k is for k + 1 agents."""
    limits: Table
    """path_length min and max, detour min and max, split range low and high, attempts."""


class Batch(NamedTuple):
    """Room for the certified boards, and for what was asked of those that failed."""

    rows: Text
    """(count, side, side): the boards in letters."""
    starts: Table
    goals: Table
    moves: Text
    """(count, agents, HORIZON): the plans in letters."""
    lengths: Table
    distances: Table
    facts: Table
    """Columns: see below; the last two are the greatest distance and detour that were seen."""


DONE, SIZE, AGENTS, HOLES, WAIT, COST, DISTANCE, ATTEMPTS, LONGEST, DETOUR = range(10)


def make_batch(count: int, side: int) -> Batch:
    return Batch(
        np.zeros((count, side, side), np.uint8),
        np.zeros((count, 8), np.int64),
        np.zeros((count, 8), np.int64),
        np.zeros((count, 8, HORIZON), np.uint8),
        np.zeros((count, 8), np.int64),
        np.zeros((count, 8), np.int64),
        np.zeros((count, 10), np.int64),
    )


@kernel
def letter(step: int) -> int:
    """The code of the letter for a difference of cell numbers."""
    if step == 0:
        return WAIT_CODE
    if step == 1:
        return RIGHT_CODE
    if step == -1:
        return LEFT_CODE
    return DOWN_CODE if step > 0 else UP_CODE


@kernel
def draw(state: Words) -> np.uint64:
    """The next 64 random bits."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return mix(state[0], ZERO)


@kernel
def below(state: Words, limit: int) -> int:
    """A random whole number from 0 to limit - 1."""
    return int((draw(state) >> np.uint64(11)) % np.uint64(limit))


@kernel
def uniform(state: Words) -> float:
    """A random number from 0 to 1."""
    return float(draw(state) >> np.uint64(11)) / 9007199254740992.0


@kernel
def pick(state: Words, cumulative: NDArray[np.float64]) -> int:
    """An index drawn with the given cumulative shares."""
    value = uniform(state) * cumulative[-1]
    for k in range(cumulative.shape[0]):
        if value < cumulative[k]:
            return k
    return int(cumulative.shape[0] - 1)


@kernel
def pick_cell(state: Words, score: Table, low: int, high: int, taken: Table, count: int) -> int:
    """A random cell with low <= score <= high that is not among the first `count` taken; or -1."""
    found = 0
    for cell in range(score.shape[0]):
        found += int(low <= score[cell]) & int(score[cell] <= high)
    for k in range(count):
        if low <= score[taken[k]] <= high:
            found -= 1
    if found == 0:
        return -1
    skip = below(state, found)
    for cell in range(score.shape[0]):
        if low <= score[cell] <= high:
            used = False
            for k in range(count):
                used = used or taken[k] == cell
            if not used:
                if skip == 0:
                    return cell
                skip -= 1
    return -1


@kernel
def scatter_holes(state: Words, size: int, holes: int, free: Words, cells: Table) -> None:
    """Free rows of a square board with `holes` holes at random."""
    for r in range(size):
        free[r] = (ONE << np.uint64(size)) - ONE
    for cell in range(size * size):
        cells[cell] = cell
    for k in range(holes):
        other = k + below(state, size * size - k)
        cells[k], cells[other] = cells[other], cells[k]
        row = cells[k] // size
        free[row] &= ~(ONE << np.uint64(cells[k] - row * size))


@kernel
def place_agents(
    lake: Lake,
    state: Words,
    first: int,
    agents: int,
    crossing: bool,
    low: int,
    high: int,
    starts: Table,
    goals: Table,
    far: Table,
    spare: Table,
    sets: Words,
) -> bool:
    """Draw the starts and goals of agents `first` to `agents` - 1; False if there is no room.

    Distances, which `far` receives, are from low to high. With `crossing` the second agent is drawn
    so that it can meet the first on its way, which makes boards that need a wait common instead of
    rare.
    """
    table, meeting, open_cells = spare[0], spare[1], spare[2]
    cells = table.shape[0]
    cell = 0
    for r in range(lake.free.shape[0]):
        for c in range(lake.width):
            open_cells[cell] = int((lake.free[r] >> np.uint64(c)) & ONE)
            cell += 1
    meet, when = -1, 0
    for a in range(first, agents):
        goal = pick_cell(state, open_cells, 1, 1, goals, a)
        if goal < 0:
            return False
        goals[a] = goal
        distances(lake, goal, table, sets)
        start = -1
        if a == 1 and crossing and meet >= 0 and table[meet] >= 0:
            for cell in range(cells):
                if meeting[cell] != when or table[cell] != table[meet] + when:
                    meeting[cell] = -1
                else:
                    meeting[cell] = table[cell]
            start = pick_cell(state, meeting, low, high, starts, a)
        if start < 0:
            start = pick_cell(state, table, low, high, starts, a)
        if start < 0:
            return False
        starts[a] = start
        far[a] = table[start]
        if a == 0 and crossing:
            when = 1 + below(state, max(table[start] - 1, 1))
            meet = walk(lake, state, table, start, when)
            distances(lake, meet, meeting, sets)
    return True


@kernel
def in_the_way(
    lake: Lake,
    starts: Table,
    goals: Table,
    far: Table,
    allowed: Words,
    banned: Table,
    room: Words,
    pairs: Words,
) -> bool:
    """Whether the first two agents cannot both take a shortest path.

    `far` is how far each has to go, `allowed` the board's one layer, and `banned` is empty; fills
    `room` and `pairs`.
    """
    one = arrival(lake, starts[0], goals[0], allowed, 0, banned, far[0], FAR, room[0])
    backward(lake, room[0], goals[0], banned, one, room, 2)
    two = arrival(lake, starts[1], goals[1], allowed, 0, banned, far[1], FAR, room[1])
    backward(lake, room[1], goals[1], banned, two, room, 3)
    return not compatible(lake, room, 2, one, banned, 3, two, banned, pairs)


@kernel
def greatest(tables: Table, index: int) -> int:
    """The greatest number of a table."""
    found = tables[index, 0]
    for k in range(tables.shape[1]):
        found = max(found, tables[index, k])
    return int(found)


@kernel
def shuffle(state: Words, starts: Table, goals: Table) -> None:
    """Put the agents in random order, so that their numbers tell nothing."""
    for a in range(starts.shape[0] - 1, 0, -1):
        b = below(state, a + 1)
        starts[a], starts[b] = starts[b], starts[a]
        goals[a], goals[b] = goals[b], goals[a]


@kernel
def walk(lake: Lake, state: Words, table: Table, cell: int, steps: int) -> int:
    """Follow a random shortest path towards the cell where `table` is zero."""
    height, width = lake.free.shape[0], lake.width
    for _ in range(steps):
        found, choice = 0, cell
        for step in (-width, width, -1, 1):
            other = cell + step
            if (
                other < 0
                or other >= height * width
                or (abs(step) == 1 and other // width != cell // width)
            ):
                continue
            if table[other] >= 0 and table[other] == table[cell] - 1:
                found += 1
                if below(state, found) == 0:
                    choice = other
        cell = choice
    return cell


@compiled
def sample(draws: Draws, seeds: Words, batch: Batch) -> None:
    """Fill a batch: one certified board per seed, or the facts of a failed request."""
    single_share = draws.agent_shares[0] / draws.agent_shares[-1]
    for index in range(seeds.shape[0]):
        state = np.empty(1, np.uint64)
        state[0] = seeds[index]
        facts = batch.facts[index]
        which = pick(state, draws.size_shares)
        size = draws.sizes[which]
        agents = pick(state, draws.agent_shares) + 1
        wait = False
        if agents > 1:
            wait = uniform(state) * (1.0 - single_share) < draws.wait_ratios[which]
        holes = int(draws.hole_ratios[which] * size * size + uniform(state))
        facts[:] = 0
        facts[SIZE], facts[AGENTS], facts[HOLES], facts[WAIT] = size, agents, holes, int(wait)
        find(state, size, holes, agents, wait, draws.limits, batch, index)


@compiled
def find(
    state: Words,
    size: int,
    holes: int,
    agents: int,
    wait: bool,
    limits: Table,
    batch: Batch,
    index: int,
) -> None:
    """Draw boards until one fits the request, and write it to the batch.

    Small boards are few, and one split may hold none with exactly `holes` holes: then one hole
    more or less will do. If that fails too, the request is rare, and is tried for much longer.
    """
    low, high, least, most, split_low, split_high, attempts = limits
    cells = size * size
    facts = batch.facts[index]
    free = np.empty(size, np.uint64)
    allowed = free.reshape((1, size))
    lake = Lake(free, size, True)
    order = np.empty(cells, np.int64)
    spare = np.empty((3, cells), np.int64)
    sets = np.empty((3, size), np.uint64)
    starts = np.empty(agents, np.int64)
    goals = np.empty(agents, np.int64)
    banned = np.empty((0, 3), np.int64)
    far = np.empty(agents, np.int64)
    forms = make_forms(size, size, agents)
    room = np.empty((4, cells + 1, size), np.uint64)
    pairs = np.empty((3, cells, size), np.uint64)
    for attempt in range(13 * attempts):
        count = holes + (0, 1, -1, 0)[min(attempt // attempts, 3)]
        if count < 0 or cells - count < agents + spare_cells(agents):
            continue
        facts[HOLES] = count
        facts[ATTEMPTS] += 1
        scatter_holes(state, size, count, free, order)
        crossing = (wait or least > 0) and uniform(state) < 0.9
        pair = 2 if crossing else 0
        placed = place_agents(
            lake, state, 0, pair, crossing, low, high, starts, goals, far, spare, sets
        )
        if (
            placed
            and crossing
            and not in_the_way(lake, starts, goals, far, allowed, banned, room, pairs)
        ):
            continue
        placed = placed and place_agents(
            lake, state, pair, agents, False, low, high, starts, goals, far, spare, sets
        )
        facts[LONGEST] = max(facts[LONGEST], greatest(spare, 0))
        if not placed:
            continue
        shuffle(state, starts, goals)
        share = fingerprint_in(free, size, starts, goals, forms) % PARTS
        if share < split_low or share >= split_high:
            continue
        status, cost, paths, lengths, _, alone, needs_wait = certify(
            free, size, starts, goals, most, NODES
        )
        if status != SOLVED or lengths.max() >= HORIZON:
            continue
        distance = alone.sum()
        facts[DETOUR] = max(facts[DETOUR], cost - distance)
        if needs_wait != wait or cost - distance < least:
            continue
        facts[DONE], facts[COST], facts[DISTANCE] = 1, cost, distance
        for r in range(size):
            for c in range(size):
                inside = (free[r] >> np.uint64(c)) & ONE != ZERO
                batch.rows[index, r, c] = FREE_CODE if inside else HOLE_CODE
        batch.starts[index, :agents] = starts
        batch.goals[index, :agents] = goals
        batch.lengths[index, :agents] = lengths
        batch.distances[index, :agents] = alone
        for a in range(agents):
            for t in range(lengths[a]):
                batch.moves[index, a, t] = letter(paths[a, t + 1] - paths[a, t])
        return
