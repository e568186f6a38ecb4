"""`coevolve evolve`: the same as `coevolve run`, with a tree as its default."""

from inspect import signature
from typing import Any

from coevolve.cli.run import run

PLAN = "tree"


def evolve(plan: str = PLAN, *options: Any, **named: Any) -> None:
    """Grow a tree of versions: diagnose, change one factor of the harness, backtest, train, judge.

    A version is kept if it is better than its parent beyond noise and no diagnostic says that it
    cheats. If no version is better than the untrained policy, the tree ends with that. This is
    `coevolve run` with the plan `tree`, which is on the lake. Others are tree-math and tree-code.
    """
    run(plan, *options, **named)


# The command line takes the options from here: those of `run`, but for the plan that is the default
_plan, *_options = signature(run).parameters.values()
evolve.__annotations__ = run.__annotations__
evolve.__signature__ = signature(run).replace(  # type: ignore[attr-defined]
    parameters=[_plan.replace(default=PLAN), *_options]
)
