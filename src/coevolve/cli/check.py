"""`coevolve check`: is a domain as it should be?"""

import json
from typing import Annotated

import typer


def check(
    domain: Annotated[str, typer.Argument(help="Name of a domain.")],
    seed: Annotated[int, typer.Option(help="Seed of the tasks that are checked.")] = 0,
    leakage: Annotated[
        bool,
        typer.Option(
            "--leakage", help="Check instead if answers to train tasks solve held-out ones."
        ),
    ] = False,
    most: Annotated[
        float, typer.Option(min=0, max=1, help="With --leakage: the share that they may solve.")
    ] = 0.02,
    knob: Annotated[
        list[str] | None,
        typer.Option("--knob", "-k", help="With --leakage: NAME=VALUE, repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")] = False,
) -> None:
    """Check that a domain keeps the protocol. The exit code is 1 if a check fails.

    coevolve check lake;  coevolve check lake --leakage -k size3.data_ratio=1
    """
    from coevolve.cli.show import notes, out, show_finding
    from coevolve.domains.check import conformance
    from coevolve.domains.registry import get_domain

    if leakage:
        audit(domain, seed, most, knob or [], as_json)
        return
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


def audit(domain: str, seed: int, most: float, knob: list[str], as_json: bool) -> None:
    """How many held-out tasks copying solves; the exit code is 1 if they are too many."""
    from coevolve.cli.show import notes, show_finding
    from coevolve.cli.tasks import parse_changes
    from coevolve.domains.registry import get_domain
    from coevolve.evaluation.leakage import leakage

    found = get_domain(domain)
    knobs = found.space.parse(parse_changes(knob))
    with notes.status("copying answers"):
        leaks = list(leakage(found, knobs, seed))
    failed = [leak for leak in leaks if leak.excess > most]
    if as_json:
        told = [
            {
                "split": leak.split.value, "copied": leak.copied.as_json(),
                "blind": leak.blind.as_json(), "alike": leak.alike, "train": leak.train,
                "passed": leak not in failed,
            }
            for leak in leaks
        ]  # fmt: skip
        print(json.dumps({"domain": domain, "most": most, "leakage": told}))
    for leak in [] if as_json else leaks:
        rate = leak.copied
        words = (
            f"{rate.successes} of {rate.n} tasks ({rate.value:.1%}, 95 % interval {rate.low:.1%} "
            f"to {rate.high:.1%}) are solved by the answer to one of {leak.train:,} train tasks "
            f"that looks alike, {leak.blind.successes} by as many answers to any; {leak.alike} "
            f"have one; at most {most:.1%} more may be"
        )
        show_finding("FAIL" if leak in failed else "pass", leak.split.value, words)
    if failed:
        raise typer.Exit(1)
