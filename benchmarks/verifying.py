"""Valid plans per CPU second that `checks.check_plans` passes, beside pymapf's conflict checker.

A valid plan is the dearest for both: nothing is found early. Ours checks starts, moves, bounds,
holes, conflicts and goals; pymapf's checks conflicts alone.
"""

import json
import tempfile
from pathlib import Path

import numpy as np
from measure import Row, Section, rate
from plans import STEPS, make_plans
from processes import run_peer

from coevolve.domains.lake.board import Board, Plan
from coevolve.domains.lake.canonical import arrays_of
from coevolve.domains.lake.checks import CHECKS, CONFLICT, check_plans


class PlanBatch:
    """Plans with their boards as the arrays that `check_plans` takes."""

    def __init__(self, made: list[tuple[Board, Plan]]) -> None:
        arrays = [arrays_of(board) for board, _ in made]
        cells = np.array([plan for _, plan in made], np.int16)
        self.free = np.stack([free for free, _, _, _ in arrays])
        self.width = arrays[0][1]
        self.starts = np.stack([starts for _, _, starts, _ in arrays])
        self.goals = np.stack([goals for _, _, _, goals in arrays])
        self.rows = np.ascontiguousarray(cells[..., 0])
        self.columns = np.ascontiguousarray(cells[..., 1])
        self.lengths = np.full(cells.shape[:2], cells.shape[2], np.int32)
        self.failures = np.zeros((len(made), len(CHECKS), 3), np.int32)
        self.costs = np.zeros(len(made), np.int64)

    def check(self) -> int:
        """Check all plans; how many there are."""
        check_plans(
            self.free,
            self.width,
            self.starts,
            self.goals,
            self.rows,
            self.columns,
            self.lengths,
            self.failures,
            self.costs,
        )
        return len(self.costs)


def check_verdicts(made: list[tuple[Board, Plan]]) -> None:
    """Make sure that every plan passes, and that each would not with two agents in one cell."""
    batch = PlanBatch(made)
    batch.check()
    if batch.failures[:, :, 0].any():
        raise SystemExit("a plan is not valid; only valid plans may be timed")
    batch.rows[:, 1], batch.columns[:, 1] = batch.rows[:, 0], batch.columns[:, 0]
    batch.check()
    if not batch.failures[:, CONFLICT, 0].all():
        raise SystemExit("the checker passed a plan with a conflict")


def measure_verifying(seconds: float, count: int) -> Section:
    made = make_plans(count)
    check_verdicts(made)
    ours = rate(PlanBatch(made).check, seconds)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plans.json"
        file.write_text(json.dumps([{"paths": plan} for _, plan in made]))
        report = run_peer("jumanji", "pymapf_verify.py", seconds, "--plans", str(file))
    theirs = report["per_cpu_second"]["find_first_conflict"]
    what, unit = f"8x8, 4 agents, {STEPS} steps, {count} valid plans", "plans/s"
    rows = [
        Row(what, ours, unit, least=400_000),
        Row(what, ours, unit, "pymapf find_first_conflict", theirs, least_ratio=70),
    ]
    notes = [
        f"All {count} plans are distinct, {STEPS + 1} positions per path; both checkers pass every "
        "one of them and refuse a copy in which two agents share a path. pymapf is given the same "
        "plans and looks for conflicts only.",
    ]
    return Section("verifying", rows, notes, {"plans": count, "peers": {"pymapf": report}})
