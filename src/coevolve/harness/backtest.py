"""What a backtest finds: numbers with their n, whether the patch may be trained, and what it
predicts for the patch's metric. `unclear` is an honest answer."""

from typing import Literal

from coevolve.core.rollout import Value

Prediction = Literal["up", "down", "unclear"]


class Measure(Value):
    """A number, how many things it is about, and its 95 % interval where it is an estimate."""

    value: float
    n: int
    low: float | None = None
    high: float | None = None


class Backtest(Value):
    """The answer of a backtest."""

    passed: bool
    """Whether the patch is worth being trained."""
    words: str
    """Why, with the numbers."""
    prediction: Prediction
    """Where the patch's metric goes, by the rules of docs/backtests.md."""
    measures: dict[str, Measure] = {}
