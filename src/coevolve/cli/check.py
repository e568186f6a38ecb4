"""`coevolve check`: is a domain as it should be?"""

import json
from typing import Annotated

import typer


def check(
    domain: Annotated[str, typer.Argument(help="Name of a domain.")],
    seed: Annotated[int, typer.Option(help="The suite draws its tasks from this.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")] = False,
) -> None:
    """Put a domain through the conformance suite; the exit code is 1 if a check fails."""
    from coevolve.cli.show import notes, out, show_finding
    from coevolve.domains.check import conformance
    from coevolve.domains.registry import get_domain

    findings = []
    with notes.status("checking") as status:
        for finding in conformance(get_domain(domain), seed):
            findings.append(finding)
            status.update(f"checking: {finding.name} done")
            if not as_json:
                state = "pass" if finding.passed else "FAIL"
                show_finding(state, finding.name, finding.message)
    failed = sum(not finding.passed for finding in findings)
    if as_json:
        print(json.dumps({"domain": domain, "checks": [f._asdict() for f in findings]}))
    else:
        out.print(f"{len(findings) - failed} of {len(findings)} checks passed")
    if failed:
        raise typer.Exit(1)
