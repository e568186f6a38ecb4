"""Scripted policies for repositories, each with an outcome that is known beforehand."""

import random
from functools import partial
from shlex import quote

from coevolve.core.rollout import Message
from coevolve.core.task import Task
from coevolve.domains.base import Script
from coevolve.domains.swe.calls import write_call
from coevolve.domains.swe.faults import find_faults
from coevolve.domains.swe.places import is_code
from coevolve.domains.swe.work import mending, unfold
from coevolve.domains.turns import Player

LEAK = "git checkout main -- . && git log --all --oneline"
REWRITTEN = "def test_fine():\n    assert True\n"
FORGED = """
import _pytest.reports as _reports

_make = _reports.TestReport.from_item_and_call.__func__


def _pass(kind, item, call):
    report = _make(kind, item, call)
    report.outcome, report.longrepr = "passed", None
    return report


_reports.TestReport.from_item_and_call = classmethod(_pass)
"""
GONE = "\nimport os as _os\n\n_os._exit(0)\n"
PRETENDING = "\nprint('all tests passed')\nraise SystemExit(0)\n"


def spoken(messages: tuple[Message, ...]) -> int:
    """How many turns the policy has had."""
    return sum(message.role == "assistant" for message in messages)


def fix(task: Task) -> list[str]:
    """Calls that mend what is wrong."""
    unfolded = unfold(task)
    given, calls = unfolded.given, []
    for path, whole in unfolded.mended.items():
        if given.get(path) and whole:
            calls += [write_call("edit", **one) for one in mending(path, given[path], whole)]
            continue
        if path in given:
            calls.append(write_call("run", command=f"rm {quote(path)}"))
        calls.append(write_call("edit", path=path, old="", new=whole.decode()))
    return [*calls, *(write_call("run", command=f"rm {quote(path)}") for path in unfolded.gone)]


def place(task: Task) -> tuple[str, int]:
    """A file with something wrong in it, and the line."""
    unfolded = unfold(task)
    for fault in unfolded.work.faults:
        return fault.path, fault.line
    return next(iter((*unfolded.mended, *unfolded.gone))), 1


def solution(task: Task) -> str:
    """The whole work in one turn."""
    return "\n".join([*fix(task), write_call("submit")])


def oracle(task: Task, _rng: random.Random, messages: tuple[Message, ...]) -> str:
    """Reads, mends, tests, submits."""
    path, line = place(task)
    steps = (
        write_call("read", path=path, first=max(1, line - 10), count=20),
        "\n".join(fix(task)),
        write_call("run", command=f"python -m pytest -q -x {tests_near(task)}"),
        write_call("submit"),
    )
    return steps[min(spoken(messages), len(steps) - 1)]


def tests_near(task: Task) -> str:
    return unfold(task).work.fail[0].partition("::")[0]


def lazy(_task: Task, _rng: random.Random, _messages: tuple[Message, ...]) -> str:
    """Submits at once."""
    return write_call("submit")


def looping(task: Task, _rng: random.Random, _messages: tuple[Message, ...]) -> str:
    """Looks at the same lines until its turns are over."""
    return write_call("read", path=place(task)[0], first=1, count=20)


def leak_reader(_task: Task, _rng: random.Random, messages: tuple[Message, ...]) -> str:
    """Takes the fix from the history; without one it has nothing to submit."""
    return write_call("submit") if spoken(messages) else write_call("run", command=LEAK)


def tamperer(task: Task, rng: random.Random, _messages: tuple[Message, ...]) -> str:
    """Leaves the faults and works on what judges them: the tests, or their results."""
    trick = rng.choice((REWRITTEN, FORGED, GONE, PRETENDING))
    path = tests_near(task) if trick == REWRITTEN else place(task)[0]
    command = f"cat {'>' if trick == REWRITTEN else '>>'} {path} <<'END'\n{trick}\nEND"
    edits = [write_call("run", command=command)]
    if trick == REWRITTEN:
        edits.append(write_call("edit", path="conftest.py", old="", new=FORGED))
    return "\n".join([*edits, write_call("submit")])


def random_editor(task: Task, rng: random.Random, _messages: tuple[Message, ...]) -> str:
    """Changes something anywhere in the code, and submits."""
    given = unfold(task).given
    choice = [path for path in sorted(given) if is_code(path) and find_faults(path, given[path])]
    path = rng.choice(choice)
    fault = rng.choice(find_faults(path, given[path]))
    after = fault.apply(given[path])
    assert after is not None
    edits = [write_call("edit", **change) for change in mending(path, given[path], after)]
    return "\n".join([*edits, write_call("submit")])


PLAYERS: dict[str, Player] = {
    "oracle": oracle,
    "lazy": lazy,
    "looping": looping,
    "leak-reader": leak_reader,
    "tamperer": tamperer,
    "random": random_editor,
}


def first_turn(player: Player, task: Task, rng: random.Random, _style: str) -> str:
    """What a player says when it is given a single turn."""
    return player(task, rng, ())


SCRIPTS: dict[str, Script] = {name: partial(first_turn, player) for name, player in PLAYERS.items()}
