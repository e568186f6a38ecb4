"""Engineers that are rules, by name. Those that are models are made from a policy."""

from collections.abc import Callable
from functools import partial

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
    """The rule called `name`, or an error that names the nearest one."""
    return lookup("engineer", name, ENGINEERS | BAD)()
