"""A version: a node of the lineage, with all that its training follows from.

A version and its parent differ in one factor of the harness at most. Where a plan starts from
`parent`, training goes on from the parent's checkpoint; from `base`, it begins with the run's first
policy again. Either way a version can be built again from its record.
"""

from typing import Literal

from coevolve.core.rollout import Value
from coevolve.harness.harness import Harness
from coevolve.harness.patch import Patch

Verdict = Literal["root", "kept", "pruned", "reverted"]
"""root: where a lineage begins, unjudged. kept: as good as the plan asks, and valid. pruned: not
better. reverted: worse, or better by means that are not valid."""


class Version(Value):
    """What is known of a version."""

    number: int
    generation: int = 0
    """Which round of proposals it came from."""
    parent: int | None
    """None: it grows from the first policy."""
    patch: Patch | None = None
    """What sets it apart from its parent; None where its harness is the parent's."""
    control: bool = False
    """Trained beside patched versions, to tell what their patches did."""
    merged: tuple[int, ...] = ()
    """The two kept siblings that a merge unites."""
    author: str = "start"
    """Who proposed what it is trained under."""
    skill: str = ""
    """The skill behind its patch."""
    harness: Harness
    verdict: Verdict | None = None
    """None while it is not judged."""
    words: str = ""
    """Why it was judged so."""

    @property
    def valid(self) -> bool:
        """Whether others may grow from it."""
        return self.verdict in ("root", "kept")


class Moved(Value):
    """The metric of a patch, before and after; None where it was not measured."""

    metric: str
    before: float | None
    after: float | None

    def by(self, direction: str) -> float | None:
        """How far it moved in a direction."""
        if self.before is None or self.after is None:
            return None
        change = self.after - self.before
        return change if direction == "up" else -change
