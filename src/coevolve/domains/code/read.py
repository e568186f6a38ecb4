"""Reading the data of a generated task from a file, believing none of it."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from coevolve.core.errors import UserError
from coevolve.core.names import lookup
from coevolve.core.rollout import Value
from coevolve.domains.code.problem import unfold
from coevolve.domains.code.steps import AFTER, BEFORE
from coevolve.domains.code.topics import BY_NAME
from coevolve.harness.check import checked

Scalar = bool | int | str
Test = tuple[Literal["plain", "edge", "large"], int, int]


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
    tests: tuple[Test, ...] = Field(min_length=1, max_length=200)
    examples: tuple[Test, ...] = Field(max_length=20)
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
