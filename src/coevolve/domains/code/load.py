"""Tasks from files: HumanEval's format, programs that read and print, and generated ones.

Nothing that a task says of itself is believed. Whatever solution it brings is run against its tests
before it is accepted, so that a task that nobody can pass is refused where it is read.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, Field

from coevolve.core.errors import UserError
from coevolve.core.names import lookup
from coevolve.core.rollout import Value
from coevolve.core.seeds import digest
from coevolve.core.task import Task
from coevolve.domains.code import forms
from coevolve.domains.code.judge import checking, judge
from coevolve.domains.code.problem import unfold
from coevolve.domains.code.steps import AFTER, BEFORE
from coevolve.domains.code.topics import BY_NAME
from coevolve.domains.simple import task_of
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
    if line.solution and (first := judge(task, line.solution).first):
        raise UserError(
            f"the solution of {name} does not pass its own tests ({first.failure}): {first.message}"
        )
    return task


def loaded(name: str, data: dict[str, Any], content: str) -> Task:
    mark = digest("code", data["source"], content)
    bucket = {"topic": data["source"], "form": data["form"], "large": False, "steps": 0}
    return task_of("code", data, number_of(mark), bucket, 0, name or f"code-{mark[:8].hex()}")


def number_of(mark: bytes) -> int:
    return int.from_bytes(mark[:8], "big") >> 1


Scalar = bool | int | str
TestSeed = tuple[Literal["plain", "edge", "large"], int, int]


class Step(Value):
    when: Literal["before", "after"]
    name: str
    parameters: dict[str, Scalar]


class Generated(Value):
    """What a generated task holds."""

    source: Literal["generated"]
    template: str
    parameters: dict[str, Scalar]
    steps: tuple[Step, ...] = Field(max_length=8)
    form: Literal["function", "stdin"]
    tests: tuple[TestSeed, ...] = Field(min_length=1, max_length=200)
    examples: tuple[TestSeed, ...] = Field(max_length=20)
    cpu_s: int = Field(ge=1, le=60)
    memory_mb: int = Field(ge=64, le=8_192)


def read_generated(name: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """The data of a generated task, checked by making its tests."""
    found = checked(Generated, data, f"task {name}")
    template = lookup("template", found.template, BY_NAME)
    for step in found.steps:
        known = BEFORE if step.when == "before" else AFTER[template.gives]
        lookup("step", step.name, known)
    for kind, size, _ in (*found.tests, *found.examples):
        most = template.large if kind == "large" else 4_096
        if not 1 <= size <= most:
            raise UserError(f"task {name}: a {kind} test of size {size}; use 1 to {most}")
    made = found.model_dump(mode="json")
    try:
        unfold(made)
    except Exception as error:  # parameters that no template draws may break it in any way
        raise UserError(
            f"task {name}: its tests cannot be made ({type(error).__name__}: {error})"
        ) from None
    return made
