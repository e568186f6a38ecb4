"""Sweeps: one number of a reward or of filters over a grid, each value backtested.

The number is written as `{x}` in the patch's value:

    Patch(factor="reward", value="reward - {x} * (tokens > 400)", ...)
    Patch(factor="filters", value=[{"kind": "spread", "least": "{x}"}], ...)
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from coevolve.backtests.patch import backtest_stored
from coevolve.backtests.replay import Stored
from coevolve.backtests.reward import check_names
from coevolve.core.errors import UserError
from coevolve.domains.base import Domain
from coevolve.harness.backtest import Backtest
from coevolve.harness.patch import Patch, patched
from coevolve.harness.rules import BacktestRule
from coevolve.harness.version import Version

PLACE = "{x}"


class Swept(NamedTuple):
    """One value of the grid."""

    x: float
    patch: Patch
    found: Backtest


def sweep(
    patch: Patch,
    grid: Sequence[float],
    parent: Version,
    stored: Stored,
    domain: Domain,
    rule: BacktestRule,
) -> list[Swept]:
    """Backtest a patch for every value of its number; `stored` is read once for all of them."""
    if patch.factor not in ("reward", "filters") or PLACE not in str(patch.value):
        raise UserError(
            f"a sweep of {patch.factor} = {patch.value!r:.80}: name the reward or the filters, "
            f"with {PLACE} in the place of the number"
        )
    swept = []
    for x in grid:
        one = patch.model_copy(update={"value": with_number(patch.value, x)})
        check_names(patched(parent.harness, one).reward, domain)
        swept.append(Swept(x, one, backtest_stored(one, parent.harness, stored, domain, rule)))
    return swept


def table(swept: Sequence[Swept]) -> list[dict[str, Any]]:
    """One row per value: whether it passed, what it predicts, and every measure."""
    return [
        {
            "x": one.x,
            "passed": one.found.passed,
            "prediction": one.found.prediction,
            **{name: measure.value for name, measure in one.found.measures.items()},
            "n": next(iter(one.found.measures.values())).n if one.found.measures else 0,
            "words": one.found.words,
        }
        for one in swept
    ]


def with_number(value: Any, x: float) -> Any:
    """The value with a number in its place."""
    if isinstance(value, dict):
        return {name: with_number(inner, x) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [with_number(inner, x) for inner in value]
    if not isinstance(value, str):
        return value
    return x if value == PLACE else value.replace(PLACE, f"({x!r})")
