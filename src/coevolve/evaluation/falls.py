"""What fell while something else rose: a gain in one metric must not hide a loss in another."""

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol


class Changed(Protocol):
    """A paired change with its interval."""

    @property
    def mean(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def n(self) -> int: ...


class Fall(NamedTuple):
    """A metric that is lower than before."""

    metric: str
    before: float
    after: float
    low: float
    """Of the change, 95 %."""
    high: float
    n: int
    protected: bool
    """Whether the objective asks that it does not fall."""

    @property
    def sure(self) -> bool:
        return self.high < 0

    @property
    def words(self) -> str:
        """In one sentence, without its end."""
        points = (100 * value for value in (self.after - self.before, self.low, self.high))
        change, low, high = (f"{value:+.1f}" for value in points)
        noise = "" if self.sure else ", which may be noise"
        rule = "; the plan protects it" if self.protected else ""
        return (
            f"{self.metric} fell from {100 * self.before:.1f} % to {100 * self.after:.1f} % "
            f"({change} points [{low}, {high}], n {self.n}){noise}{rule}"
        )


def falls(
    before: Mapping[str, float],
    after: Mapping[str, float],
    changes: Mapping[str, Changed],
    protect: Collection[str],
    margin: float,
) -> tuple[Fall, ...]:
    """Metrics that fell beyond noise while another rose, and protected ones that fell beyond noise
    or by more than the margin."""
    found = []
    for name, change in changes.items():
        sure, protected = change.high < 0, name in protect
        rose = any(one.mean > 0 for other, one in changes.items() if other != name)
        if (sure and rose) or (protected and (sure or change.mean < -margin)):
            found.append(
                Fall(name, before[name], after[name], change.low, change.high, change.n, protected)
            )
    return tuple(found)
