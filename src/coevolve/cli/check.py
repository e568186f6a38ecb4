"""`coevolve check`, `domains` and `doctor`: is everything as it should be?"""

import json
from typing import Annotated

import typer

from coevolve.core.errors import UserError


def check(
    domain: Annotated[str, typer.Argument(help="Name of a domain.")],
    seed: Annotated[int, typer.Option(help="The suite draws its tasks from this.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")] = False,
) -> None:
    """Put a domain through the conformance suite; the exit code is 1 if a check fails."""
    from rich.markup import escape

    from coevolve.cli.show import notes, out
    from coevolve.domains.check import conformance
    from coevolve.domains.registry import get_domain

    findings = []
    with notes.status("checking") as status:
        for finding in conformance(get_domain(domain), seed):
            findings.append(finding)
            status.update(f"checking: {finding.name} done")
            if not as_json:
                mark = "[green]pass[/]" if finding.passed else "[red]FAIL[/]"
                out.print(f"{mark}  {finding.name}: {escape(finding.message)}", highlight=False)
    failed = sum(not finding.passed for finding in findings)
    if as_json:
        print(json.dumps({"domain": domain, "checks": [f._asdict() for f in findings]}))
    else:
        out.print(f"{len(findings) - failed} of {len(findings)} checks passed")
    if failed:
        raise typer.Exit(1)


def summary_of(name: str) -> str:
    """What a domain is about; of one that a broken package offers, why it cannot be had."""
    from coevolve.domains.registry import get_domain

    try:
        return get_domain(name).summary
    except UserError as error:
        return f"broken: {error}"


def domains(
    name: Annotated[str, typer.Argument(help="A domain, for its knobs in full.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
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
        found |= {f"{key}{family.mark}NAME": family.summary for key, family in FAMILIES.items()}
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
    print(domain.space.defaults().describe())
    for title, meanings in (("failures", domain.failures), ("components", domain.components)):
        out.print(f"\n[bold]{title}[/]")
        print("\n".join(f"- {key}: {meaning}" for key, meaning in meanings.items()))
    for title in ("styles", "policies", "suites"):
        out.print(f"\n[bold]{title}[/]: {', '.join(facts[title])}", highlight=False)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")] = False,
) -> None:
    """Look at this machine: what is installed, what works, and how to get what is missing."""
    from rich.markup import escape

    from coevolve.cli.health import examine
    from coevolve.cli.show import out

    findings = examine()
    if as_json:
        print(json.dumps([finding._asdict() for finding in findings]))
    else:
        for finding in findings:
            mark = {"ok": "[green]ok     [/]", "optional": "[yellow]missing[/]"}.get(
                finding.state, "[red]broken [/]"
            )
            out.print(f"{mark}  {finding.name}: {escape(finding.message)}", highlight=False)
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(1)
