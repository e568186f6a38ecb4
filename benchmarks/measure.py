"""What every measurement is made of: rows of the table, and the one clock that all sides share.

The clock is `peers.peer_clock.rate`: CPU time of the whole process, after one uncounted call. Ours
and the peers are timed by that same function. The invariant: a row knows its target and whether it
was met, so the table, the JSON file and the exit code cannot disagree.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from peers.peer_clock import rate

__all__ = ["Row", "Section", "rate"]


@dataclass(frozen=True)
class Row:
    """One line of the table: our number, a peer's where there is one, and the target."""

    what: str
    ours: float
    unit: str
    peer: str = ""
    theirs: float | None = None
    least_ratio: float | None = None
    """How many times better than the peer ours has to be."""
    least: float | None = None
    """What our number has to reach."""
    most: float | None = None
    """What our number must not exceed."""
    less_is_better: bool = False

    @property
    def ratio(self) -> float | None:
        """How many times better ours is: above 1 is in our favour."""
        if self.theirs is None:
            return None
        better, worse = self.ours, self.theirs
        if self.less_is_better:
            better, worse = worse, better
        return better / worse if worse else float("inf")

    @property
    def passed(self) -> bool | None:
        """Whether the target is met; None for a row that is shown for orientation."""
        if self.least_ratio is not None:
            return self.ratio is not None and self.ratio >= self.least_ratio
        if self.least is not None:
            return self.ours >= self.least
        return None if self.most is None else self.ours <= self.most

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio, "passed": self.passed}


@dataclass
class Section:
    """The rows of one kind of work, what they were measured on, and what to know about them."""

    title: str
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    """Numbers behind the rows, for the JSON file."""
