"""`coevolve domains`: which there are, and what one of them is."""

import json
from typing import Annotated

import typer

from coevolve.core.errors import UserError


def domains(
    name: Annotated[str, typer.Argument(help="The domain to describe.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")] = False,
) -> None:
    """List the domains, or describe one: knobs, failure classes, styles, scripted policies."""
    from coevolve.cli.show import out
    from coevolve.domains.registry import FAMILIES, get_domain, members, names

    if name in FAMILIES:
        known = members(name)
        print(json.dumps(known) if as_json else "\n".join(known))
        return
    if not name:
        found = {key: summary_of(key) for key in sorted(names())}
        for key, family in FAMILIES.items():
            found[f"{key}{family.mark}{family.named}"] = family.summary
        print(json.dumps(found) if as_json else "\n".join(f"{k}  {v}" for k, v in found.items()))
        return
    domain = get_domain(name)
    facts = {
        "name": domain.name,
        "summary": domain.summary,
        "knobs": dict(domain.space.defaults()),
        "failures": dict(domain.failures),
        "components": dict(domain.components),
        "buckets": list(domain.buckets),
        "styles": list(domain.styles),
        "policies": list(domain.scripts),
        "suites": list(domain.suites),
    }
    if as_json:
        print(json.dumps(facts))
        return
    out.print(f"[bold]{domain.name}[/]: {domain.summary}\n\n[bold]knobs[/]", highlight=False)
    print(domain.space.defaults().describe() or "none")
    for title, meanings in (("failures", domain.failures), ("components", domain.components)):
        out.print(f"\n[bold]{title}[/]")
        print("\n".join(f"- {key}: {meaning}" for key, meaning in meanings.items()))
    for title in ("styles", "policies", "suites"):
        out.print(f"\n[bold]{title}[/]: {', '.join(facts[title]) or 'none'}", highlight=False)


def summary_of(name: str) -> str:
    """What a domain is about; of one that a broken package offers, why it cannot be had."""
    from coevolve.domains.registry import get_domain

    try:
        return get_domain(name).summary
    except UserError as error:
        return f"broken: {error}"
