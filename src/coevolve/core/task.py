"""A task: one instance of a domain, as a value that can be written to a line of JSON."""

import shlex
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from coevolve.core.errors import UserError
from coevolve.core.splits import Split

Label = str | int | float | bool


class Task(BaseModel):
    """One instance. `data` belongs to the domain, everything else is the same for all domains."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """Domain name and content hash; equal exactly for equal data."""
    domain: str
    split: Split
    seed: int
    """The seed it was generated from, 0 for tasks that were loaded."""
    bucket: dict[str, Label]
    """Labels to group results by, such as size or number of agents."""
    data: dict[str, Any]
    """What the domain needs to prompt, verify and solve: plain JSON values."""


def whole_task(data: Mapping[str, Any], domain: str) -> Task:
    """A task of a domain from JSON values that claim to be one."""
    try:
        given = Task.model_validate(data)
    except ValueError as error:
        raise UserError(f"not a task: {reason(error)}") from None
    if given.domain != domain:
        raise UserError(
            f"a task of the domain '{given.domain}', not of '{domain}'; "
            f"give -d {shlex.quote(given.domain)}"
        )
    return given


def reason(error: ValueError) -> str:
    """The first complaint of a validation error, in one line."""
    errors = getattr(error, "errors", None)
    if errors is None:
        return str(error)
    first = errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    message = str(first["msg"]).removeprefix("Value error, ")
    return f"{place}: {message}" if place else message
