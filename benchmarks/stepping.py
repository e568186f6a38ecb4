"""Joint steps per CPU second of `stepper.Lakes`, beside jumanji, POGEMA and gymnasium.

A joint step is one board of the batch advanced by all its agents. Actions are drawn before the
clock starts, on all sides; each call of `Lakes.step` is made from Python, jumanji's are fused into
one compiled rollout.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from measure import Row, Section, rate
from numpy.typing import NDArray
from plans import AGENTS, STEPS, actions_of, certified_boards, make_plans
from processes import run_peer

from coevolve.domains.lake.board import Board
from coevolve.domains.lake.stepper import ACTIONS, Lakes

BATCH = 1024
TIME_LIMIT = 50
"""Connector's, so that no episode can be longer here than there."""


def play(lakes: Lakes, actions: NDArray[np.int8]) -> Callable[[], int]:
    """A chunk that plays all joint actions and carries on where the last one ended."""
    steps: int = actions.shape[0] * actions.shape[1]

    def chunk() -> int:
        for joint in actions:
            lakes.step(joint)
        return steps

    return chunk


def random_rate(boards: list[Board], seconds: float) -> float:
    """Steps per CPU second of random actions; boards that are done begin anew by themselves."""
    shape = (TIME_LIMIT, len(boards), AGENTS)
    actions = np.random.default_rng(0).integers(0, len(ACTIONS), shape, np.int8)
    return rate(play(Lakes(boards, TIME_LIMIT), actions), seconds)


def failed_share(boards: list[Board]) -> float:
    """The share of random joint steps that fail, which ends their episode."""
    lakes, rng = Lakes(boards, TIME_LIMIT), np.random.default_rng(1)
    failed = 0
    for _ in range(TIME_LIMIT):
        actions = rng.integers(0, len(ACTIONS), (len(boards), AGENTS), np.int8)
        failed += int(np.count_nonzero(lakes.step(actions)[3]))
    return failed / (TIME_LIMIT * len(boards))


def valid_rate(seconds: float) -> float:
    """Steps per CPU second where no step fails: the batch plays whole valid plans."""
    made = make_plans(BATCH)
    lakes, actions = Lakes([board for board, _ in made], STEPS), actions_of([p for _, p in made])
    for joint in actions:
        if lakes.step(joint)[3].any():
            raise SystemExit("a valid plan failed in the stepper")
    if not (lakes.done.all() and lakes.reward.all()):
        raise SystemExit("a valid plan did not end at its goals in the stepper")
    return rate(play(lakes, actions), seconds)


def measure_stepping(seconds: float) -> Section:
    boards = certified_boards(BATCH)
    ours, valid = random_rate(boards, seconds), valid_rate(seconds)
    failed = failed_share(boards)
    reports: dict[str, dict[str, Any]] = {
        "jumanji": run_peer("jumanji", "jumanji_step.py", seconds),
        "pogema": run_peer("pogema", "pogema_step.py", seconds),
        "gymnasium": run_peer("jumanji", "gymnasium_step.py", seconds),
    }
    jumanji, pogema, gymnasium = (reports[name]["per_cpu_second"] for name in reports)
    what, unit = f"8x8, 4 agents, batch {BATCH}, random actions, auto reset", "steps/s"
    lake = "gymnasium FrozenLake, 1 agent"
    rows = [
        Row(what, ours, unit, "jumanji Connector, batch_reset", jumanji["batch_reset"], 5),
        Row(what, ours, unit, "jumanji Connector, auto_reset", jumanji["auto_reset"]),
        Row(what, ours, unit, "POGEMA, wrapped", pogema["wrapped"], 500),
        Row(what, ours, unit, "POGEMA, unwrapped", pogema["unwrapped"]),
        Row(what, ours, unit, f"{lake}, wrapped", gymnasium["wrapped"]),
        Row(what, ours, unit, f"{lake}, sync_vector", gymnasium["sync_vector"]),
        Row(
            "the same, whole valid plans: no step fails",
            valid,
            unit,
            "jumanji Connector, batch_reset",
            jumanji["batch_reset"],
        ),
    ]
    notes = [
        f"{failed:.0%} of our random joint steps fail and end their episode, which is cheaper than "
        "moving everyone and dearer in resets; the row of valid plans has no failed step.",
        "The games differ: Connector and POGEMA let a forbidden move do nothing, FrozenLake has "
        "one agent; POGEMA also builds observations per agent.",
    ]
    return Section("stepping", rows, notes, {"failed_share": failed, "peers": reports})
