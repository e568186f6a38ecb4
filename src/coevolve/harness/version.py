"""A version: a node of the lineage, with all that its training follows from.

Every version is trained from the run's first policy under its own harness, so that a version and
its parent differ in one factor and nothing else, and each can be built again from its record.
"""

from typing import Literal

from coevolve.core.rollout import Value
from coevolve.harness.harness import Harness
from coevolve.harness.patch import Patch

Judged = Literal["root", "kept", "pruned", "reverted", "rejected"]
"""root: where a lineage begins. kept: valid and better. pruned: not better. reverted: worse, or
better by means that are not valid. rejected: by its backtest, and never trained."""


class Version(Value):
    """What is known of a version."""

    number: int
    parent: int | None
    """None for the root."""
    patch: Patch | None
    """What sets it apart from its parent; None for the root and for a merge."""
    merged: tuple[int, ...] = ()
    """The two kept siblings that a merge unites."""
    harness: Harness
    verdict: Judged | None = None
    """None while it is not judged."""
    words: str = ""
    """Why it was judged so."""

    @property
    def valid(self) -> bool:
        """Whether others may grow from it."""
        return self.verdict in ("root", "kept")
