"""Valid plans per CPU second that `checks.check_plans` passes, beside pymapf's conflict checker.

Ours checks starts, moves, bounds, holes, conflicts and goals; pymapf's checks conflicts alone. A
valid plan is the dearest for pymapf, which stops at the first conflict; ours looks twice at a plan
that fails, to say where, which is a row of its own.
"""

import json
import tempfile
from pathlib import Path

import numpy as np
from measure import Row, Section, rate
from plans import STEPS, make_plans
from processes import run_peer

from coevolve.domains.lake import arrays
from coevolve.domains.lake.board import Board, Plan
from coevolve.domains.lake.checks import CHECKS, CONFLICT, check_plans


class PlanBatch:
    """Plans with their boards as the arrays that `check_plans` takes."""

    def __init__(self, made: list[tuple[Board, Plan]]) -> None:
        cells = np.array([plan for _, plan in made], np.int16)
        count, agents, steps, _ = cells.shape
        self.boards = arrays.boards_of([board for board, _ in made])
        self.plans = arrays.make_plans(range(count), [agents * steps] * count)
        self.plans.paths[:] = agents
        self.plans.lengths[:] = steps
        self.plans.rows[:] = cells[..., 0].ravel()
        self.plans.columns[:] = cells[..., 1].ravel()
        self.failures = np.zeros((count, len(CHECKS), 3), np.int32)
        self.costs = np.zeros(count, np.int64)

    def check(self) -> int:
        """Check all plans; how many there are."""
        check_plans(self.boards, self.plans, self.failures, self.costs)
        return len(self.costs)


def collided(made: list[tuple[Board, Plan]]) -> list[tuple[Board, Plan]]:
    """The same plans with the second agent where the first is."""
    return [(board, (plan[0], plan[0], *plan[2:])) for board, plan in made]


def check_verdicts(made: list[tuple[Board, Plan]]) -> None:
    """Make sure that every plan passes, and that each would not with two agents in one cell."""
    batch = PlanBatch(made)
    batch.check()
    if batch.failures[:, :, 0].any():
        raise SystemExit("a plan is not valid; only valid plans may be timed")
    batch = PlanBatch(collided(made))
    batch.check()
    if not batch.failures[:, CONFLICT, 0].all():
        raise SystemExit("the checker passed a plan with a conflict")


def measure_verifying(seconds: float, count: int) -> Section:
    made = make_plans(count)
    check_verdicts(made)
    ours = rate(PlanBatch(made).check, seconds)
    failing = rate(PlanBatch(collided(made)).check, seconds)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plans.json"
        file.write_text(json.dumps([{"paths": plan} for _, plan in made]))
        report = run_peer("jumanji", "pymapf_verify.py", seconds, "--plans", str(file))
    theirs = report["per_cpu_second"]["find_first_conflict"]
    what, unit = f"8x8, 4 agents, {STEPS} steps, {count} valid plans", "plans/s"
    rows = [
        Row(what, ours, unit, "pymapf find_first_conflict", theirs, least_ratio=120),
        Row("the same plans, each with a conflict", failing, unit),
    ]
    notes = [
        f"All {count} plans are distinct, {STEPS + 1} positions per path; both checkers pass every "
        "one of them and refuse a copy in which two agents share a path. pymapf is given the same "
        "plans and looks for conflicts only.",
    ]
    return Section("verifying", rows, notes, {"plans": count, "peers": {"pymapf": report}})
