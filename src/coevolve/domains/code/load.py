"""Tasks from elsewhere: HumanEval's format, and programs that read and print.

Whatever solution a task brings is run against its tests before the task is accepted, so that a task
that nobody can pass is refused where it is read.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from coevolve.core.errors import UserError
from coevolve.core.rollout import Value
from coevolve.core.seeds import digest
from coevolve.core.splits import split_of
from coevolve.core.task import Task
from coevolve.domains.code import forms
from coevolve.domains.code.judge import Judged, Verdict, checking, judge
from coevolve.harness.check import checked
from coevolve.sandbox.judge import check, program

HUMANEVAL_CPU_S = 5


class HumanEval(BaseModel):
    """A line of HumanEval; fields beyond these are left alone."""

    task_id: str = Field(min_length=1)
    prompt: str = Field(min_length=1)
    entry_point: str = Field(pattern=r"^[A-Za-z_]\w*$")
    canonical_solution: str
    test: str


class Case(Value):
    input: str
    output: str


class StdinTask(Value):
    """A task for a program that reads standard input and prints."""

    id: str = ""
    statement: str = Field(min_length=1)
    tests: tuple[Case, ...] = Field(min_length=1)
    """Hidden; `coevolve` compares what is printed with `output`."""
    examples: tuple[Case, ...] = ()
    """Shown."""
    solution: str = ""
    """A program that passes; without one the scripts `oracle` and `brute` cannot answer."""
    tolerance: float = Field(default=0.0, ge=0, lt=1)
    """How far printed numbers may be off, absolutely or relatively; 0 compares text."""
    cpu_s: int = Field(default=2, ge=1, le=60)
    memory_mb: int = Field(default=512, ge=64, le=8_192)


def load_humaneval(values: Mapping[str, Any]) -> Task:
    """A task in HumanEval's format; its own solution must pass its tests."""
    name = str(values.get("task_id", "a task"))
    if not str(values.get("test") or "").strip():
        raise UserError(f"{name} has no tests: the field `test` is missing or empty")
    line = checked(HumanEval, values, name)
    data: dict[str, Any] = {
        "source": "humaneval",
        "form": forms.FUNCTION,
        "prompt": line.prompt,
        "entry": line.entry_point,
        "reference": line.prompt + line.canonical_solution,
        "check": line.test,
        "count": 1,
        "cpu_s": HUMANEVAL_CPU_S,
        "memory_mb": 512,
    }
    task = loaded(line.task_id, data, line.prompt)
    with program(data["reference"]) as candidate:
        found = check(candidate, line.entry_point, line.test, data["reference"], checking(task))
    if candidate.problem:
        raise UserError(f"the solution of {name} does not compile: {candidate.problem}")
    if problem := found.first or found.broken:
        raise UserError(f"the solution of {name} does not pass its own tests: {problem}")
    if not found.passed:
        raise UserError(f"{name} has no tests: its `check` asserts nothing")
    return task.model_copy(update={"data": {**data, "count": found.passed}})


def load_stdin(values: Mapping[str, Any]) -> Task:
    """A task for a program that reads and prints."""
    name = str(values.get("id") or "a task")
    if not values.get("tests"):
        raise UserError(f"{name} has no tests: the field `tests` is missing or empty")
    line = checked(StdinTask, values, name)
    data = {
        "source": "stdin",
        "form": forms.STDIN,
        "statement": line.statement,
        "tests": [case.model_dump() for case in line.tests],
        "examples": [case.model_dump() for case in line.examples],
        "reference": line.solution,
        "tolerance": line.tolerance,
        "cpu_s": line.cpu_s,
        "memory_mb": line.memory_mb,
    }
    task = loaded(line.id, data, line.statement)
    if line.solution:
        refuse(name, judge(task, line.solution))
    return task


def refuse(name: str, judged: Judged) -> None:
    """Refuse a task whose solution fails."""
    first: Verdict | None = judged.first
    if first is not None:
        raise UserError(
            f"the solution of {name} does not pass its own tests ({first.failure}): {first.message}"
        )


def loaded(name: str, data: dict[str, Any], content: str) -> Task:
    mark = digest("code", data["source"], content)
    return Task(
        id=name or f"code-{mark[:8].hex()}",
        domain="code",
        split=split_of(number_of(mark)),
        seed=0,
        bucket={"topic": data["source"], "form": data["form"], "large": False, "steps": 0},
        data=data,
    )


def number_of(mark: bytes) -> int:
    return int.from_bytes(mark[:8], "big") >> 1
