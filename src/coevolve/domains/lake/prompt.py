"""What a policy sees of a task: two styles for chat models and two short ones for small models."""

from coevolve.core.rollout import Message
from coevolve.domains.lake.board import HOLE, Board

RULES = """\
You plan paths for agents on a frozen lake, a grid of ice ('.') and holes ('O'). Cells are given \
as [row, column] from the top left, starting at [0, 0].

At each time step every agent moves up, down, left or right by one cell, or waits. All agents \
move at the same time. A plan is valid only if:
- every agent begins at its start and ends at its goal,
- no agent leaves the grid or enters a hole,
- no two agents are in the same cell at the same time, and no two agents swap cells in one step. \
An agent that has reached the end of its path stays there and is in the way of others.

The cost of a plan is the sum over all agents of the time step at which the agent reaches its \
goal for good; waiting before that counts. Find a valid plan with the least cost. You may think \
first."""

FORMS = {
    "paths": """\
Give the plan once, between <answer> and </answer>: a list with one path per agent in order, each \
a list of [row, column] from the start to the goal, one entry per time step. Form: \
<answer>[[[r,c],[r,c],...],[[r,c],...]]</answer>""",
    "moves": """\
Give the plan once, between <answer> and </answer>: a list with one string per agent in order, \
one letter per time step: U up, D down, L left, R right, W wait. Form: \
<answer>["...","..."]</answer>""",
}


def chat(board: Board, form: str) -> tuple[Message, ...]:
    """A system message with the rules and a user message with the board."""
    lines = [f"The lake has {board.height} rows and {board.width} columns:", *board.rows, ""]
    for agent, (start, goal) in enumerate(zip(board.starts, board.goals, strict=True)):
        lines.append(f"Agent {agent}: start {list(start)}, goal {list(goal)}")
    return (
        Message(role="system", content=f"{RULES}\n\n{FORMS[form]}"),
        Message(role="user", content="\n".join(lines)),
    )


def cells(board: Board) -> tuple[Message, ...]:
    """Nothing but cells: which are holes, starts and goals. A word is a cell, so looking a cell up
    needs no counting, which is what small models learn first."""
    holes = (
        f"{r},{c}" for r, row in enumerate(board.rows) for c, mark in enumerate(row) if mark == HOLE
    )
    starts = ("{},{}".format(*cell) for cell in board.starts)
    goals = ("{},{}".format(*cell) for cell in board.goals)
    words = (f"{board.height}x{board.width}", "holes", *holes, "starts", *starts, "goals", *goals)
    return (Message(role="user", content=" ".join((*words, "plan"))),)


def compact(board: Board) -> tuple[Message, ...]:
    """The bare facts, a token or two each: rows, then start and goal of each agent."""
    agents = (
        f"{start[0]},{start[1]}>{goal[0]},{goal[1]}"
        for start, goal in zip(board.starts, board.goals, strict=True)
    )
    content = "\n".join((*board.rows, *agents)) + "\n"
    return (Message(role="user", content=content),)
