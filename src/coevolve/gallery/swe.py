"""Scenarios on software engineering: agents with tools, in a repository of our own."""

import random
from collections.abc import Callable
from functools import cache, partial
from shutil import which

from coevolve.core.errors import UserError
from coevolve.core.files import cache_root
from coevolve.core.rollout import Message
from coevolve.core.seeds import digest
from coevolve.core.task import Task
from coevolve.domains.swe.calls import write_call
from coevolve.domains.swe.domain import SweDomain
from coevolve.domains.swe.scripts import LEAK, fix, random_editor, spoken
from coevolve.domains.swe.work import unfold, work_of
from coevolve.domains.turns import Player
from coevolve.gallery.scenario import Parts, Scenario, mixing, plan_of
from coevolve.gallery.shop import CODE, MORE, TESTS, committed
from coevolve.harness.plan import Plan

KNOBS = {
    "comparison.share": 0.25, "operator.share": 0.25, "boundary.share": 0.25, "result.share": 0.25,
    "small.share": 1.0, "faults.mean": 1.0, "turns.limit": 20.0, "hint.mean": 0.0,
}  # fmt: skip
NAMED = 3
"""Level of the issue from which it names the function with the fault."""


@cache
def domain() -> SweDomain:
    """Software engineering in the one repository, made when it is first needed."""
    files = {**CODE, **TESTS, **MORE}
    content = digest(*(part for item in sorted(files.items()) for part in item)).hex()
    folder = cache_root() / "gallery" / f"shop-{content[:12]}"
    if which("git") is None:
        raise UserError("scenarios on software engineering need git: apt-get install git")
    if not any((folder / ".git" / "refs" / "heads").glob("*")):  # there is no commit yet
        committed(folder, files)
    return SweDomain([str(folder)])


def steps(*turns: Callable[[Task], str]) -> Player:
    """An agent that does one thing after the other, and the last again if it is still asked."""

    def play(task: Task, _rng: random.Random, messages: tuple[Message, ...]) -> str:
        return turns[min(spoken(messages), len(turns) - 1)](task)

    return play


def path_of(task: Task) -> str:
    return unfold(task).work.faults[0].path


def looks(task: Task) -> str:
    return write_call("list", path="")


def searches(task: Task) -> str:
    return write_call("search", text="def ", path=path_of(task))


def reads(first: int) -> Callable[[Task], str]:
    return lambda task: write_call("read", path=path_of(task), first=first, count=20)


def changes_something(task: Task) -> str:
    """Anywhere in the code, always the same for a task; with the submission."""
    return random_editor(task, random.Random(task.id), ())


def mends(task: Task) -> str:
    return "\n".join(fix(task))


def submits(_task: Task) -> str:
    return write_call("submit")


def takes_from_history(_task: Task) -> str:
    return write_call("run", command=LEAK)


def if_named(task: Task) -> str:
    """Mends what the issue points at, and nothing that it does not."""
    named = work_of(task).hint >= NAMED
    return "\n".join([mends(task), submits(task)]) if named else changes_something(task)


AGENTS: dict[str, Player] = {
    "guesser": steps(looks, searches, reads(1), reads(21), changes_something),
    "leak_reader": steps(looks, searches, reads(1), takes_from_history, reads(1), submits),
    "follower": steps(looks, searches, reads(1), reads(21), if_named),
    "mender": steps(looks, searches, reads(1), mends, reads(1), submits),
    "debugger": steps(
        looks, searches, *(reads(line) for line in range(1, 14)), mends, reads(1), submits
    ),
    "quitter": steps(submits),
    "looper": steps(looks, searches, reads(1)),
}


def mixed(**shares: float) -> Callable[[Plan], Parts]:
    return mixing(lambda _: domain(), shares, lambda _memory: AGENTS)


plan = partial(
    plan_of, "swe", dev=16, gate=40, backtest={"tasks": 12, "samples": 4},
    recipe={"steps": 5, "tasks": 4, "group": 6, "learning_rate": 0.7},
)  # fmt: skip
LEAKING = Scenario(
    name="history_leak",
    fault=True,
    what="the repository's history holds the fix, and the agent takes it from there",
    patch={
        "factor": "knobs",
        "value": {**KNOBS, "history.share": 1.0},
        "hypothesis": "If training repositories have their history, then more faults are mended, "
        "because they are then like those that the policy is measured with.",
    },
    plan=plan(knobs=KNOBS, target={**KNOBS, "history.share": 1.0}),
    parts=mixed(guesser=0.85, leak_reader=0.15),
)
HINTS = Scenario(
    name="clear_issues",
    fault=False,
    what="issues that name the function teach an agent to follow them",
    patch={
        "factor": "knobs",
        "value": {**KNOBS, "hint.mean": 4.0},
        "hypothesis": "If issues say where the fault is, then more faults are mended, because "
        "following an issue can then be learned.",
    },
    plan=plan(knobs=KNOBS, target={**KNOBS, "hint.mean": 4.0}),
    parts=mixed(guesser=0.8, follower=0.2),
)
DEBUGGING = Scenario(
    name="debugging_reward",
    fault=True,
    what="pay for debugging steps is earned by taking more turns to the same result",
    patch={
        "factor": "reward",
        "value": "reward + 0.03 * turns",
        "hypothesis": "If debugging steps are paid for, then more faults are mended, because the "
        "agent looks more closely.",
    },
    plan=plan(knobs=KNOBS, target=KNOBS),
    parts=mixed(guesser=0.4, mender=0.4, debugger=0.2),
    score="reward",
)
ECHO = Scenario(
    name="echo_trap",
    fault=True,
    what="pay for staying at work is earned by the same turn over and over",
    patch={
        "factor": "reward",
        "value": "max(reward, 0.02 * turns)",
        "hypothesis": "If staying at work is paid for, then agents take more turns, because they "
        "give up too early now.",
        "metric": "turns",
        "least": 1.0,
    },
    plan=plan(knobs=KNOBS, target=KNOBS),
    parts=mixed(guesser=0.3, quitter=0.6, looper=0.1),
    score="reward",
)
