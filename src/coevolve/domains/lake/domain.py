"""MAPF-FrozenLake: several agents cross a frozen lake at once, in one turn, without meeting."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from coevolve.core.errors import UserError
from coevolve.core.names import lookup
from coevolve.core.rollout import Message, Outcome
from coevolve.core.splits import Split, check_split, split_of
from coevolve.core.task import Task, whole_task
from coevolve.domains.base import Script, Statistic
from coevolve.domains.check import Counts
from coevolve.domains.knobs import Knobs, KnobSpace
from coevolve.domains.lake import answer, prompt, reward
from coevolve.domains.lake.arrays import boards_of
from coevolve.domains.lake.board import Board, Plan, board_of, parse_board
from coevolve.domains.lake.canonical import fingerprint
from coevolve.domains.lake.checks import MEANING, Violation, check_all, violations
from coevolve.domains.lake.draw import draw_gif, draw_svg, draw_text
from coevolve.domains.lake.generate import CHUNK, bucket_of, generate, measure, task_id
from coevolve.domains.lake.knobs import SPACE
from coevolve.domains.lake.scripts import PLANNERS
from coevolve.domains.lake.solver.certify import Solution, solve
from coevolve.domains.lake.suite import benchmark
from coevolve.domains.lines import draw_file
from coevolve.domains.simple import length


def oracle(task: Task, _rng: random.Random, style: str) -> str:
    return in_style(plan_of(task), style)


def planner(plan: Callable[[Board, random.Random], Plan]) -> Script:
    """A script that answers with what a planner makes of the board."""
    return lambda task, rng, style: in_style(plan(board_of(task), rng), style)


def in_style(plan: Plan, style: str) -> str:
    """A plan as the answer to a prompt of some style."""
    style = style or STYLES[0]
    text = answer.write(plan, style)
    return f"{answer.OPEN}{text}{answer.CLOSE}" if style in TAGGED else text


STYLES = ("paths", "moves", "compact", "cells")
TAGGED = ("paths", "moves")


class LakeDomain:
    """Implements the `Domain` protocol."""

    name: ClassVar[str] = "lake"
    summary: ClassVar[str] = "multi-agent path finding on a frozen lake, certified optimal"
    space: KnobSpace = SPACE
    failures: ClassVar[Mapping[str, str]] = MEANING
    components: ClassVar[Mapping[str, str]] = {
        "accuracy": "0 unless valid; 1 if optimal, falling to 0.3 with the excess cost",
        "length": "0 up to 1,500 tokens, falling to -1 at 4,096",
    }
    buckets: ClassVar[tuple[str, ...]] = ("size", "agents", "holes", "wait", "detour")
    styles: ClassVar[tuple[str, ...]] = STYLES
    scripts: ClassVar[Mapping[str, Script]] = {
        "oracle": oracle,
        **{name: planner(plan) for name, plan in PLANNERS.items()},
    }
    suites: ClassVar[Mapping[str, Callable[[], Iterator[Task]]]] = {"benchmark": benchmark}
    counts: ClassVar[Counts] = Counts(many=CHUNK + 100)
    panels: ClassVar[tuple[str, ...]] = ("size", "agents", "wait_subset")
    full_reward: ClassVar[float] = reward.total({"accuracy": 1.0, "length": 0.0})

    def generate(
        self, knobs: Knobs, count: int, seed: int, split: Split, workers: int = 1
    ) -> Iterator[Task]:
        return generate(knobs, count, seed, split, workers)

    def prompt(self, task: Task, style: str = "") -> tuple[Message, ...]:
        board = board_of(task)
        style = self.style(style)
        bare = {"compact": prompt.compact, "cells": prompt.cells}
        return bare[style](board) if style in bare else prompt.chat(board, style)

    def style(self, style: str) -> str:
        return lookup("prompt style", style or self.styles[0], {name: name for name in self.styles})

    def oracle(self, task: Task, style: str = "") -> str:
        return in_style(plan_of(task), self.style(style))

    def verify(self, task: Task, text: str, tokens: int | None = None) -> Outcome:
        """Run the eight checks; the first that fails is the failure class."""
        return self.verify_all([task], [text], [tokens])[0]

    def verify_all(
        self, tasks: Sequence[Task], texts: Sequence[str], tokens: Sequence[int | None]
    ) -> list[Outcome]:
        """The same for many answers at once; equal answers share one outcome."""
        if not tasks:
            return []
        names = {id(task): task for task in tasks}
        places = {name: place for place, name in enumerate(names)}
        boards = [board_of(task) for task in names.values()]
        costs = [task.data["cost"] for task in names.values()]
        answers = list(zip((places[id(task)] for task in tasks), texts, tokens, strict=True))
        distinct = list(dict.fromkeys(answers))
        which, said, counts = zip(*distinct, strict=True)
        arrays = boards_of(boards)
        plans, reasons = answer.read_all(said, which, boards, arrays)
        failures, found = check_all(arrays, plans)
        passed = (failures[:, :, 0] == 0).all(axis=1).tolist()
        columns = zip(
            which, counts, reasons, passed, failures.tolist(), found.tolist(), strict=True
        )
        outcomes = [
            judged(cost, costs[place], count, [] if valid else violations(failed, reason))
            for place, count, reason, valid, failed, cost in columns
        ]
        known = dict(zip(distinct, outcomes, strict=True))
        return [known[one] for one in answers]

    def looks(self, task: Task) -> str:
        """Boards look alike that differ in their holes alone."""
        rows = task.data["rows"]
        return f"{len(rows)}x{len(rows[0])} {task.data['starts']} {task.data['goals']}"

    def fingerprint(self, task: Task) -> int:
        return fingerprint(board_of(task))

    def statistics(self, tasks: Sequence[Task]) -> dict[str, Statistic]:
        return measure(tasks)

    def solve(self, data: Mapping[str, Any]) -> dict[str, Any]:
        inner = data.get("data", data)
        if not isinstance(inner, Mapping):
            raise UserError(f"`data` is {inner!r:.60}, not an object")
        solution = solve(parse_board(dict(inner)))
        return {
            "sum_of_costs": solution.cost,
            "needs_wait": solution.needs_wait,
            "plan": answer.words(solution.plan),
        }

    def draw(self, task: Task, text: str | None = None) -> str:
        return draw_text(board_of(task), self.read(task, text))

    def picture(self, task: Task, text: str | None, path: Path) -> None:
        board, plan = board_of(task), self.read(task, text)
        film = plan or ((),) * board.agents
        ways = {
            ".svg": lambda: draw_svg(board, plan),
            ".gif": lambda: draw_gif(board, film, path),
        }
        draw_file(path, ways)

    def read(self, task: Task, text: str | None) -> Plan | None:
        """The plan in an answer, None if there is none to draw."""
        try:
            return None if text is None else answer.parse(text, board_of(task))
        except answer.AnswerError:
            return None

    def load(self, data: Mapping[str, Any]) -> Task:
        """A task from a line of JSON: a bare board (`rows`, `starts`, `goals`) or a whole task.

        Either is solved anew, so that what a task says of itself need not be believed.
        """
        given = whole_task(data, self.name) if "data" in data else None
        board = parse_board(given.data if given else dict(data))
        solution = solve(board)
        facts = facts_of(board, solution)
        if given:
            for key in ("cost", "needs_wait"):
                if given.data.get(key, facts[key]) != facts[key]:
                    raise UserError(
                        f"task {given.id} claims {key} = {given.data[key]!r}, but it is "
                        f"{facts[key]!r}"
                    )
            check_split(fingerprint(board), given.split, given.id)
        return Task(
            id=given.id if given else str(data.get("id") or task_id(facts)),
            domain=self.name,
            split=split_of(fingerprint(board)),
            seed=given.seed if given else 0,
            bucket=bucket_of(
                max(board.height, board.width),
                board.agents,
                board.holes / (board.height * board.width),
                solution.needs_wait,
                solution.cost - sum(solution.distances),
            ),
            data=facts,
        )


def plan_of(task: Task) -> Plan:
    """The optimal plan that a task carries."""
    return answer.walk_all(task.data["plan"], board_of(task))


def facts_of(board: Board, solution: Solution) -> dict[str, Any]:
    """What a task's `data` holds: the board and what is certain about it."""
    return {
        "rows": list(board.rows),
        "starts": [list(cell) for cell in board.starts],
        "goals": [list(cell) for cell in board.goals],
        "cost": solution.cost,
        "distances": list(solution.distances),
        "needs_wait": solution.needs_wait,
        "plan": answer.words(solution.plan),
    }


def judged(
    cost: int,
    optimal_cost: int | None,
    tokens: int | None,
    found: list[Violation],
) -> Outcome:
    """The outcome of a plan of some cost with what was found wrong with it."""
    valid = not found
    components = {
        "accuracy": reward.accuracy(cost, optimal_cost) if valid else 0.0,
        "length": 0.0 if tokens is None else length(tokens),
    }
    return Outcome(
        valid=valid,
        optimal=valid and cost == optimal_cost,
        reward=reward.total(components),
        components=components,
        failure=None if valid else found[0].check,
        details={"cost": cost} if valid else failed(found),
    )


def failed(found: list[Violation]) -> dict[str, Any]:
    """Details of a failed answer: the first failure in words, and all failed checks."""
    first = found[0]
    return {
        "reason": first.describe(),
        "agent": first.agent,
        "time": first.time,
        "other": first.other,
        "checks": [violation.check for violation in found],
    }
