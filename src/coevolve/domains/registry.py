"""All domains by name. Adding one is a line here, or an entry point in another package."""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points

from coevolve.core.names import lookup
from coevolve.domains.base import Domain

BUILT_IN = {
    "lake": "coevolve.domains.lake.domain:LakeDomain",
    "math": "coevolve.domains.math.domain:MathDomain",
}
FAMILIES = {"reasoning": "coevolve.domains.reasoning.domain:ReasoningDomain"}
"""Many domains of one kind: FAMILY.MEMBER, whose members the library behind them knows."""
GROUP = "coevolve.domains"
"""Entry points of this group in other packages are domains too."""


def names() -> dict[str, Callable[[], Domain]]:
    """Every known domain and how to make it; nothing is imported until it is made."""
    known: dict[str, Callable[[], Domain]] = {
        point.name: lambda point=point: point.load()()  # type: ignore[misc]
        for point in entry_points(group=GROUP)
    }
    for name, where in BUILT_IN.items():
        known[name] = lambda where=where: make(where)  # type: ignore[misc]
    return known


def make(where: str, *member: str) -> Domain:
    module, _, attribute = where.partition(":")
    domain: Domain = getattr(import_module(module), attribute)(*member)
    return domain


def get_domain(name: str) -> Domain:
    """The domain called `name`."""
    known = names()
    family, _, member = name.partition(".")
    if name not in known and member and family in FAMILIES:
        return make(FAMILIES[family], member)
    return lookup("domain", name, {**known, **{f"{f}.NAME": None for f in FAMILIES}})()  # type: ignore[misc]
