"""A task: one instance of a domain, as a value that can be written to a line of JSON."""

from typing import Any

from pydantic import BaseModel, ConfigDict

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
