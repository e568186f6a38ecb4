"""Reading the two bare forms of a plan, moves and cells, from many texts at once.

`answer` says what the forms are. Whatever is not exactly one of them is left unread.
"""

import numpy as np
from numpy.typing import NDArray

from coevolve.domains.lake.arrays import OFF, Boards, Plans
from coevolve.domains.lake.compile import Table, kernel

UNREAD, UNEVEN = -1, -2
"""Instead of a number of paths: another form; time steps with different numbers of agents."""
UP, DOWN, LEFT, RIGHT, WAIT, BAR, DASH, COMMA, SPACE, SLASH, ZERO = (ord(c) for c in "UDLRW|-, /0")

Text = NDArray[np.uint8]


@kernel
def read_plans(text: Text, ends: Table, boards: Boards, plans: Plans) -> None:
    """Read plan by plan; text number k goes from ends[k] to ends[k + 1], and none is left out."""
    for plan in range(plans.board.shape[0]):
        low, high = ends[plan], ends[plan + 1]
        if low == high:
            continue
        if ZERO <= text[low] <= ZERO + 9:
            plans.paths[plan] = read_cells(text, low, high, boards, plans, plan)
        else:
            plans.paths[plan] = read_moves(text, low, high, boards, plans, plan)


@kernel
def begin_path(boards: Boards, plans: Plans, plan: int, agent: int, at: int) -> None:
    """Write where an agent stands first; agents beyond the board's begin nowhere."""
    board = plans.board[plan]
    inside = agent < boards.sizes[board, 2]
    width = boards.sizes[board, 1]
    plans.rows[at] = boards.starts[board, agent] // width if inside else -1
    plans.columns[at] = boards.starts[board, agent] % width if inside else -1


@kernel
def read_moves(text: Text, low: int, high: int, boards: Boards, plans: Plans, plan: int) -> int:
    """The number of paths in moves like `R|UUL|-`."""
    begin = at = plans.begin[plan]
    paths, k = 0, low
    while True:
        first, word = at, k
        begin_path(boards, plans, plan, paths, at)
        row, column = int(plans.rows[at]), int(plans.columns[at])
        at += 1
        while k < high and text[k] != BAR:
            code = text[k]
            k += 1
            if code == DASH and k == word + 1 and (k == high or text[k] == BAR):
                break
            if code == UP:
                row -= 1
            elif code == DOWN:
                row += 1
            elif code == LEFT:
                column -= 1
            elif code == RIGHT:
                column += 1
            elif code != WAIT:
                return UNREAD
            plans.rows[at] = min(max(row, -OFF), OFF)
            plans.columns[at] = min(max(column, -OFF), OFF)
            at += 1
        if k == word:
            return UNREAD
        plans.lengths[begin + paths] = at - first
        paths += 1
        if k == high:
            return paths
        k += 1


@kernel
def digits(text: Text, k: int, high: int) -> int:
    """How many digits there are from k on, up to four."""
    found = 0
    while found < 4 and k + found < high and ZERO <= text[k + found] <= ZERO + 9:
        found += 1
    return found


@kernel
def number(text: Text, k: int, count: int) -> int:
    value = 0
    for place in range(k, k + count):
        value = 10 * value + int(text[place]) - ZERO
    return value


@kernel
def read_cells(text: Text, low: int, high: int, boards: Boards, plans: Plans, plan: int) -> int:
    """The number of paths in the cells of all agents at each step, like `0,1 2,1 / 0,2 2,0`."""
    steps, cells, in_step, agents, even, k = 0, 0, 0, 0, True, low
    while True:  # nothing is written before the whole text is known to be of this form
        for part in range(2):
            count = digits(text, k, high)
            if count < 1 or count > 3:
                return UNREAD
            k += count
            if part == 0:
                if k == high or text[k] != COMMA:
                    return UNREAD
                k += 1
        cells += 1
        in_step += 1
        turn = k + 2 < high and text[k + 1] == SLASH and text[k + 2] == SPACE
        if k == high or turn:
            agents = in_step if steps == 0 else agents
            even = even and in_step == agents
            steps, in_step = steps + 1, 0
        if k == high:
            break
        if text[k] != SPACE:
            return UNREAD
        k += 3 if turn else 1
    if not even:
        return UNEVEN
    begin = plans.begin[plan]
    for agent in range(agents):
        plans.lengths[begin + agent] = steps + 1
        begin_path(boards, plans, plan, agent, begin + agent * (steps + 1))
    k = low
    for cell in range(cells):
        at = begin + cell % agents * (steps + 1) + 1 + cell // agents
        count = digits(text, k, high)
        plans.rows[at] = number(text, k, count)
        k += count + 1
        count = digits(text, k, high)
        plans.columns[at] = number(text, k, count)
        k += count + (3 if k + count + 1 < high and text[k + count + 1] == SLASH else 1)
    return agents
