"""All domains by name. Adding one is a line here, or an entry point in another package."""

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from coevolve.core.entry import offers
from coevolve.core.errors import UserError
from coevolve.core.names import lookup
from coevolve.domains.base import Domain

BUILT_IN = {
    "lake": "coevolve.domains.lake.domain:LakeDomain",
    "engineering": "coevolve.engineering.domain:EngineeringDomain",
    "code": "coevolve.domains.code.domain:CodeDomain",
    "math": "coevolve.domains.math.domain:MathDomain",
    "swe": "coevolve.domains.swe.domain:SweDomain",
}


class Family(NamedTuple):
    """Many domains of one kind, called FAMILY.MEMBER; the library behind them knows which."""

    make: str
    members: str
    summary: str
    mark: str = "."
    """What stands between the name of the family and that of the member."""
    named: str = "NAME"
    """What a member is named by."""


FAMILIES = {
    "reasoning": Family(
        "coevolve.domains.reasoning.domain:ReasoningDomain",
        "coevolve.domains.reasoning.domain:names",
        "the data sets of reasoning-gym, such as reasoning.leg_counting",
    ),
    "data": Family(
        "coevolve.domains.data.domain:DataDomain",
        "coevolve.domains.data.domain:members",
        "a data set of your own, such as data:problems.jsonl or data:FOLDER?judge=choice",
        mark=":",
        named="FILE",
    ),
    "openenv": Family(
        "coevolve.domains.openenv.domain:open_server",
        "coevolve.domains.openenv.domain:members",
        "any OpenEnv server, such as openenv:http://127.0.0.1:8000",
        mark=":",
        named="URL",
    ),
    "verifiers": Family(
        "coevolve.domains.verifiers.domain:TasksetDomain",
        "coevolve.domains.verifiers.domain:members",
        "tasksets of verifiers, such as verifiers:gsm8k",
        mark=":",
        named="ID",
    ),
}
GROUP = "coevolve.domains"
"""Entry points of this group in other packages are domains too."""


def names() -> dict[str, Callable[[], Domain]]:
    """Every known domain and how to make it; nothing is imported until it is made."""
    known: dict[str, Callable[[], Domain]] = {
        name: offer.make for name, offer in offers(GROUP).items()
    }
    for name, where in BUILT_IN.items():
        known[name] = lambda where=where: make(where)  # type: ignore[misc]
    return known


def read_options(query: str) -> dict[str, Any]:
    """What stands behind a name, `FAMILY:MEMBER?name=value&other=value`; as JSON where it is."""
    return {name: read_value(value) for name, value in parse_qsl(query, keep_blank_values=True)}


def read_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def attribute(where: str) -> Any:
    """What `module:name` stands for."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


def make(where: str, *member: str) -> Domain:
    domain: Domain = attribute(where)(*member)
    return domain


def members(family: str) -> list[str]:
    """The domains of a family."""
    kind = lookup("family of domains", family, FAMILIES)
    found: list[str] = attribute(kind.members)()
    return [f"{family}{kind.mark}{member}" for member in found]


def get_domain(name: str) -> Domain:
    """The domain called `name`."""
    if name in BUILT_IN:
        return make(BUILT_IN[name])
    known = names()
    for family, kind in FAMILIES.items():
        member = name.removeprefix(family + kind.mark)
        if name not in known and member not in ("", name):
            return make(kind.make, member)
    family = name.rstrip(".:")
    if family in FAMILIES:
        raise UserError(
            f"'{name}' is many domains, {FAMILIES[family].summary}; `coevolve domains {family}` "
            "says which"
        )
    if name not in known:
        if Path(name).is_file():
            raise UserError(f"'{name}' is a file; as a data set it is data:{name}")
        if (Path(name) / "pyproject.toml").is_file():
            raise UserError(f"the package in {name} is not installed: pip install -e {name}")
        families = [f"{family}{kind.mark}{kind.named}" for family, kind in FAMILIES.items()]
        lookup("domain", name, dict.fromkeys([*known, *families]))
    return known[name]()
