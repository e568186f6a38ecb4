"""A run with an engineer and a domain of one's own, in under a minute on one CPU core.

    python examples/own.py [FOLDER]

The shipped pocket policy reads the words of the lake and no others, so these tasks are written in
them: two ghosts cross an empty board, and may pass through each other. A run that was killed goes
on with the same command. To look at it: coevolve report FOLDER --open
"""

import sys
from itertools import pairwise

import coevolve
from coevolve.core.rollout import Message
from coevolve.domains.knobs import Knob, KnobSpace
from coevolve.domains.simple import verdict


class Walk(coevolve.SimpleDomain):
    """Both ghosts have to arrive, on a shortest way. Splits, loading and the rest are inherited."""

    name = "walk"
    summary = "two ghosts cross an empty board"
    space = KnobSpace(
        (Knob("side", 3, 10, 8, "cells", "length of the board's sides", integer=True, harder=1),)
    )
    buckets = ("side",)
    failures = {"path": "not two paths, a cell at a time", "goal": "not there, or not at once"}

    def make(self, knobs, rng):
        side = int(knobs["side"])
        cells = [[row, column] for row in range(side) for column in range(side)]
        return {"side": side, "starts": rng.sample(cells, 2), "goals": rng.sample(cells, 2)}

    def question(self, data):
        starts, goals = words(data["starts"]), words(data["goals"])
        return f"{data['side']}x{data['side']} holes starts {starts} goals {goals} plan"

    def answer(self, data):
        cells, steps = data["starts"], []
        while not steps or cells != data["goals"]:
            cells = [step(*pair) for pair in zip(cells, data["goals"], strict=True)]
            steps.append(words(cells))
        return " / ".join(steps)

    def prompt(self, task, style=""):
        return (Message(role="user", content=self.question(task.data)),)

    def oracle(self, task, style=""):
        return self.answer(task.data)

    def verify(self, task, text, tokens=None):
        side, least = range(task.data["side"]), self.answer(task.data).count("/") + 1
        board = {words([[row, column]]): [row, column] for row in side for column in side}
        said = [[board.get(word) for word in line.split()] for line in text.split(" / ")]
        if any(len(cells) != 2 or None in cells for cells in said):
            return verdict("path", self.failures["path"])
        moves = pairwise([task.data["starts"], *said])
        if any(far(*pair) > 1 for move in moves for pair in zip(*move, strict=True)):
            return verdict("path", self.failures["path"])
        if said[-1] != task.data["goals"] or len(said) > least:
            return verdict("goal", self.failures["goal"])
        return verdict(None)


def words(cells):
    return " ".join(f"{row},{column}" for row, column in cells)


def step(cell, goal):
    """One cell nearer to the goal: to its row first, then to its column."""
    (row, column), (last_row, last_column) = cell, goal
    if row != last_row:
        return [row + (1 if row < last_row else -1), column]
    return [row, column + (last_column > column) - (last_column < column)]


def far(one, other):
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


class Mine:
    """Larger boards where most tasks are solved, smaller ones where they are not."""

    name = "mine"

    def propose(self, view, seed):
        cells = view.last.dev  # how the newest version did on dev tasks, by their labels
        rate = sum(cell.valid for cell in cells) / sum(cell.n for cell in cells)
        side = view.incumbent["side"] + (4 if rate > 0.5 else -1)
        why = f"If sides are {side:g} long, answers differ more, because {rate:.0%} are right now."
        return [coevolve.Patch(factor="knobs", value={"side": side}, hypothesis=why)]


PLAN = coevolve.Plan(
    policy="pocket",
    versions=2,
    knobs={"side": 4},  # where training begins; what it is measured on has the default, 8
    reach=0.6,  # how far knobs may move at a time, as a share of their range
    recipe={"steps": 2, "tasks": 8, "group": 8, "learning_rate": 5e-5, "max_tokens": 48},
    target={"dev": 48, "gate": 96, "temperature": 1.0, "max_tokens": 48},
    backtest={"tasks": 32},
)

if __name__ == "__main__":
    folder = sys.argv[1] if len(sys.argv) > 1 else "runs/own"
    found = coevolve.run(PLAN, folder, engineers=[Mine()], domain=Walk(), say=print)
    for version in found.lineage.versions:
        print(version.number, version.author, version.harness.knobs, version.verdict)
    print(found.lineage.best.words)
    print(found.policy)
