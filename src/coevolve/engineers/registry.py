"""Engineers by name: rules that come with the program, and those of installed packages. Engineers
that are models are made from a policy."""

from collections.abc import Callable
from functools import partial

from coevolve.core.entry import offers
from coevolve.core.names import lookup
from coevolve.engineers.adversaries import ADVERSARIES, make_adversary
from coevolve.engineers.bandit import BanditEngineer
from coevolve.engineers.base import Engineer
from coevolve.engineers.ceiling import CeilingEngineer
from coevolve.engineers.fixed import FixedEngineer
from coevolve.engineers.frontier import FrontierEngineer
from coevolve.engineers.learnability import LearnabilityEngineer
from coevolve.engineers.random_knobs import RandomEngineer
from coevolve.engineers.target import TargetEngineer
from coevolve.engineers.uniform import UniformEngineer

GROUP = "coevolve.engineers"
"""Entry points of this group in other packages are engineers too: something to call without
arguments that gives an `Engineer`."""

ENGINEERS: dict[str, Callable[[], Engineer]] = {
    "fixed": FixedEngineer,
    "random": RandomEngineer,
    "uniform": UniformEngineer,
    "learnability": LearnabilityEngineer,
    "bandit": BanditEngineer,
    "ceiling": CeilingEngineer,
    "target": TargetEngineer,
    "frontier": FrontierEngineer,
}
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
