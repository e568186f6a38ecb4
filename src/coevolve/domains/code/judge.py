"""The verdict of the hidden tests on a program.

Invariant: what is wanted stays in this process; the sandbox is given inputs and gives back outputs.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from coevolve.core.task import Task
from coevolve.domains.code import forms
from coevolve.domains.code.problem import unfold
from coevolve.sandbox.judge import Program, check, program
from coevolve.sandbox.limits import Limits, Stop

FAILURES: dict[str, str] = {
    "no_code": "no code block with a program in it",
    "truncated": "the last code block is never closed, as when the answer was cut off",
    "syntax": "the program does not compile",
    "runtime_error": "it raised an exception, ended with an error, or ended before it answered",
    "wrong_answer": "it answered, but not what was asked for",
    "time": "it ran out of time",
    "memory": "it ran out of memory",
    "output": "it printed more than it may",
    "processes": "it started more processes than it may",
}
"""The order says nothing about tests: the first test that fails names the class."""
STOPS: dict[Stop, str] = {
    "time": "time",
    "memory": "memory",
    "output": "output",
    "processes": "processes",
    "killed": "runtime_error",
}
WORDS: dict[Stop, str] = {
    "time": "out of time",
    "memory": "out of memory",
    "output": "too much output",
    "processes": "too many processes",
}
WALL = 10
"""Time on the clock for each second of processor time, since others use the machine too."""


class Checked(NamedTuple):
    """What came of one test."""

    kind: str
    failure: str | None
    message: str = ""


class Judged(NamedTuple):
    """All verdicts on a program; those of tests that were not reached are missing."""

    verdicts: list[Checked]
    total: int

    @property
    def passed(self) -> int:
        return sum(verdict.failure is None for verdict in self.verdicts)

    @property
    def first(self) -> Checked | None:
        """The first test that failed."""
        return next((verdict for verdict in self.verdicts if verdict.failure), None)


def limits_of(task: Task) -> Limits:
    cpu_s = task.data["cpu_s"]
    return Limits(cpu_s=cpu_s, wall_s=WALL * cpu_s, memory_mb=task.data["memory_mb"])


def judge(task: Task, code: str) -> Judged:
    """Run a program against the hidden tests of a task."""
    with program(code, limits_of(task)) as candidate:
        if task.data["source"] == "humaneval":
            judged = by_assertions(task, candidate)
        else:
            judged = Judged(list(until_late(tests_of(task), candidate)), total_of(task))
        if candidate.problem:
            return Judged([Checked("compile", "syntax", candidate.problem)], total_of(task))
        return judged


def total_of(task: Task) -> int:
    data = task.data
    return int(data["count"]) if data["source"] == "humaneval" else len(data["tests"])


Test = Callable[[Program], Checked]


def until_late(tests: Iterable[Test], candidate: Program) -> Iterable[Checked]:
    """Verdicts in order. The first that is out of time is the last: the rest count as failed."""
    for test in tests:
        verdict = test(candidate)
        yield verdict
        if verdict.failure == "time" or not candidate.alive:
            return


def tests_of(task: Task) -> Iterable[Test]:
    data = task.data
    if data["source"] == "stdin":
        for index, test in enumerate(data["tests"]):
            yield printed(f"test {index}", test["input"], test["output"], data["tolerance"])
        return
    problem, tests, _ = unfold(data)
    template = problem.template
    for hidden in tests:
        if data["form"] == forms.FUNCTION:
            yield returned(hidden.kind, "solve", hidden.values, hidden.wanted)
        else:
            given = forms.write_input(template.takes, hidden.values)
            yield printed(hidden.kind, given, forms.write_output(template.gives, hidden.wanted))


def printed(kind: str, given: str, wanted: str, tolerance: float = 0.0) -> Test:
    """A test of what a program prints."""

    def test(candidate: Program) -> Checked:
        ran = candidate.run(given)
        if ran.stop != "ok" or ran.code:
            last = ran.stderr.strip().rpartition("\n")[2] or f"ended with code {ran.code}"
            last = WORDS.get(ran.stop, last)
            return Checked(kind, STOPS.get(ran.stop, "runtime_error"), f"{shown(given)}: {last}")
        if forms.same_output(ran.stdout, wanted, tolerance):
            return Checked(kind, None)
        message = f"{shown(given)}: printed {shown(ran.stdout)}, not {shown(wanted)}"
        return Checked(kind, "wrong_answer", message)

    return test


def returned(kind: str, name: str, values: list[Any], wanted: Any) -> Test:
    """A test of what a function returns."""

    def test(candidate: Program) -> Checked:
        found = candidate.call(name, values)
        call = f"{name}({', '.join(shown(value) for value in values)})"
        if found.stop != "ok" or found.error:
            failure = STOPS.get(found.stop, "runtime_error")
            return Checked(kind, failure, f"{call}: {WORDS.get(found.stop, found.error)}")
        if same_value(found.value, wanted):
            return Checked(kind, None)
        message = f"{call}: returned {shown(found.value)}, not {shown(wanted)}"
        return Checked(kind, "wrong_answer", message)

    return test


def same_value(value: object, wanted: object) -> bool:
    """Equal and of the same types all through; a tuple does for a list."""
    if isinstance(wanted, list):
        return (
            isinstance(value, list | tuple)
            and len(value) == len(wanted)
            and all(map(same_value, value, wanted))
        )
    return type(value) is type(wanted) and value == wanted


def by_assertions(task: Task, candidate: Program) -> Judged:
    """The assertions of test code, each a test."""
    data = task.data
    found = check(candidate, data["entry"], data["check"], data["reference"], checking(task))
    total = max(total_of(task), 1)
    verdicts = [Checked("assertion", None)] * min(found.passed, total)
    problem = found.first or found.broken
    if problem or found.passed < total:
        verdicts = verdicts[: total - 1]
        verdicts.append(Checked("assertion", class_of(problem), problem or "tests were left out"))
    return Judged(verdicts, total)


def checking(task: Task) -> Limits:
    """What test code may use: it waits for the program it tests, call after call."""
    return Limits(cpu_s=10, wall_s=20.0 + WALL * task.data["cpu_s"])


def class_of(problem: str) -> str:
    """The failure class of what an assertion found."""
    name, _, reason = problem.partition(": ")
    if name == "Stopped" or problem.startswith("RuntimeError: Stopped: "):
        stop = reason.removeprefix("Stopped: ")
        return next((STOPS[known] for known in STOPS if known == stop), "runtime_error")
    return "wrong_answer" if name == "AssertionError" else "runtime_error"


def shown(value: object) -> str:
    """A value for a message, short. What a program returned may have no text that can be made."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # whole numbers of thousands of digits, deep lists
        return f"a {type(value).__name__} too large to be shown"
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"
