"""Engineers by name: rules that come with the program, and those of installed packages. Engineers
that are models are made from a policy."""

from collections.abc import Callable
from functools import partial

from coevolve.core.entry import offers
from coevolve.core.names import lookup
from coevolve.engineers import baselines
from coevolve.engineers.adversaries import ADVERSARIES, make_adversary
from coevolve.engineers.aim import aim
from coevolve.engineers.base import Engineer, View, change_knobs
from coevolve.engineers.frontier import frontier
from coevolve.engineers.signals import Ruling, summary
from coevolve.harness.proposal import Proposal

GROUP = "coevolve.engineers"
"""Entry points of this group in other packages are engineers too: something to call without
arguments that gives an `Engineer`."""

RULES: dict[str, Callable[[View, int], Ruling]] = {
    "fixed": baselines.fixed,
    "random": baselines.random,
    "uniform": baselines.uniform,
    "learnability": baselines.learnability,
    "bandit": baselines.bandit,
    "ceiling": baselines.ceiling,
    "target": baselines.target,
    "frontier": frontier,
    "aim": aim,
}


class RuleEngineer:
    """Proposes the knobs that a rule makes of the view."""

    def __init__(self, name: str) -> None:
        self.name = name

    def propose(self, view: View, seed: int) -> list[Proposal]:
        knobs, why = RULES[self.name](view, seed)
        return [change_knobs(knobs, f"{summary(view)} {why}")]


ENGINEERS: dict[str, Callable[[], Engineer]] = {name: partial(RuleEngineer, name) for name in RULES}
BAD: dict[str, Callable[[], Engineer]] = {
    name: partial(make_adversary, name) for name in ADVERSARIES
}
"""Engineers that no run should want."""


def make_engineer(name: str) -> Engineer:
    """The engineer called `name`, or an error that names the nearest one."""
    if name in (known := ENGINEERS | BAD):
        return known[name]()
    offered = {one: offer.make for one, offer in offers(GROUP).items()}
    made: Engineer = lookup("engineer", name, {**known, **offered})()
    return made


def known_engineers() -> list[str]:
    """All names that `make_engineer` knows."""
    return [*ENGINEERS, *BAD, *offers(GROUP)]
