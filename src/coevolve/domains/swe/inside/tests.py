"""Runs tests of a repository and says over standard output what came of each.

Invariant: every line that counts begins with a word that only whoever asked knows, and goes to a
file that no other process can open, so what tests or the code under test print is never taken for a
result. Code may find the word in this very process; canaries are for that (see docs/swe.md).
"""

from __future__ import annotations

import ctypes
import json
import os
import sys

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType
    from typing import Any

LONGEST = 300


def speaker(secret: str, file: int) -> Callable[[dict[str, Any]], None]:
    """What writes one line. The word lives in no variable that has a name in a frame."""

    def say(fact: dict[str, Any]) -> None:
        data = memoryview(f"{secret}{json.dumps(fact)}\n".encode())
        while data:
            data = data[os.write(file, data) :]

    return say


class Recorder:
    """A plugin of pytest that reports outcomes, and on request what each test calls."""

    def __init__(self, say: Callable[[dict[str, Any]], None], wanted: list[str] | None) -> None:
        self.say, self.code = say, -1
        self.wanted = None if wanted is None else set(wanted)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self.wanted is not None:
            items[:] = [item for item in items if item.nodeid in self.wanted]

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.say({"broken": report.nodeid, "message": last_line(report)})

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        self.say({"end": self.code})

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self.code = int(exitstatus)

    def pytest_runtest_logreport(self, report: Any) -> None:
        fact = {"id": report.nodeid, "when": report.when, "outcome": report.outcome}
        if hasattr(report, "wasxfail"):
            fact["outcome"] = "expected"
        elif report.failed:
            fact["message"] = last_line(report)
        self.say(fact)


class Tracer:
    """A plugin of pytest that reports which functions each test calls, and all lines that ran."""

    def __init__(self, say: Callable[[dict[str, Any]], None], root: str) -> None:
        self.say, self.root = say, root + os.sep
        self.called: set[tuple[str, int]] = set()
        self.lines: dict[str, set[int]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        self.called = set()
        sys.settrace(self.enter)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            self.say({"calls": item.nodeid, "functions": sorted(self.called)})

    def pytest_sessionfinish(self) -> None:
        self.say({"lines": {name: sorted(lines) for name, lines in self.lines.items()}})

    def enter(self, frame: FrameType, event: str, _: object) -> Any:
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(self.root):
            return None
        name = name[len(self.root) :]
        self.called.add((name, frame.f_code.co_firstlineno))
        lines = self.lines.setdefault(name, set())

        def step(frame: FrameType, event: str, _: object) -> Any:
            if event == "line":
                lines.add(frame.f_lineno)
            return step

        return step


def last_line(report: Any) -> str:
    """The one line that says what went wrong."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else str(report.longrepr).strip().rpartition("\n")[2]
    return text.strip().partition("\n")[0].removeprefix("E ").strip()[:LONGEST]


def prepared() -> tuple[list[str], list[object]]:
    """What pytest is told, and its plugins; nothing of the request stays in a frame."""
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # no process can look into this one
    request = json.loads(sys.stdin.read())
    say = speaker(request["secret"], os.dup(1))
    nothing = os.open("/dev/null", os.O_RDWR)
    for file in (0, 1, 2):
        os.dup2(nothing, file)
    root = request["root"]
    os.chdir(root)
    sys.argv = ["pytest"]
    sys.path += request["paths"]
    plugins: list[object] = [Recorder(say, request["ids"])]
    if request["trace"]:
        plugins.append(Tracer(say, root))
    words = ["-q", "-p", "no:cacheprovider", "-p", "no:doctest", "-W", "ignore"]
    words += ["-c", "/dev/null", "--rootdir", root, "--import-mode", "append"]
    words += ["--continue-on-collection-errors", "--basetemp", "/tmp/pytest"]
    words += ["--tb", "no"] if request["brief"] else []
    return [*words, *request["files"]], plugins


if __name__ == "__main__":
    pytest.main(*prepared())
