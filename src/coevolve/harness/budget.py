"""What a run may spend."""

import math
from typing import Annotated

from pydantic import Field

from coevolve.core.rollout import Value

Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Spent(Value):
    """What was used up, or is planned to be."""

    rollouts: Count = 0
    """Attempts at tasks, in training and evaluation."""
    tokens: Count = 0
    """Read and drawn by policies and engineers."""
    seconds: Amount = 0.0
    """Wall-clock time."""
    money: Amount = 0.0
    """In the currency of the budget."""

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(
            rollouts=self.rollouts + other.rollouts,
            tokens=self.tokens + other.tokens,
            seconds=self.seconds + other.seconds,
            money=self.money + other.money,
        )


class Budget(Value):
    """Limits of a run; what is None has none."""

    rollouts: Count | None = None
    """Attempts at tasks, 0 or more."""
    tokens: Count | None = None
    """Tokens read and drawn, 0 or more."""
    seconds: Amount | None = None
    """Wall-clock time in seconds, 0 or more."""
    money: Amount | None = None
    """In the currency that costs are given in, 0 or more."""

    def limits(self) -> dict[str, int | float]:
        """The limits that there are."""
        return self.model_dump(exclude_none=True)

    def left(self, spent: Spent) -> dict[str, int | float]:
        """What may still be spent of each limit; never below 0."""
        return {name: max(0, limit - getattr(spent, name)) for name, limit in self.limits().items()}

    def exhausted(self, spent: Spent) -> str:
        """Which budgets are used up, in words; empty if none is."""
        used_up = [
            f"the budget of {name} is used up: {getattr(spent, name):,.10g} of {limit:,.10g}"
            for name, limit in self.limits().items()
            if getattr(spent, name) > limit or same(getattr(spent, name), limit)
        ]
        return "; ".join(used_up)

    def allows(self, planned: Spent, spent: Spent) -> bool:
        """Whether all limits hold after what is planned."""
        total = spent + planned
        return all(
            getattr(total, name) < limit or same(getattr(total, name), limit)
            for name, limit in self.limits().items()
        )


def same(one: int | float, other: int | float) -> bool:
    """Equal but for the rounding of sums of fractions."""
    if isinstance(one, int) and isinstance(other, int):
        return one == other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
