"""All domains by name. Adding one is a line here, or an entry point in another package."""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points

from coevolve.core.names import lookup
from coevolve.domains.base import Domain

BUILT_IN = {
    "code": "coevolve.domains.code.domain:CodeDomain",
    "lake": "coevolve.domains.lake.domain:LakeDomain",
    "swe": "coevolve.domains.swe.domain:SweDomain",
}
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


def make(where: str) -> Domain:
    module, _, attribute = where.partition(":")
    domain: Domain = getattr(import_module(module), attribute)()
    return domain


def get_domain(name: str) -> Domain:
    """The domain called `name`."""
    return lookup("domain", name, names())()
