"""`coevolve evaluate`: measure policies on a frozen suite."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coevolve.core.errors import UserError
from coevolve.core.names import lookup

if TYPE_CHECKING:
    from coevolve.domains.base import Domain
    from coevolve.evaluation.evaluate import Tally


def evaluate(
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", "-p", help="Repeatable; a scripted policy of the domain, or all."),
    ] = None,
    domain: Annotated[str, typer.Option("--domain", "-d")] = "lake",
    suite: Annotated[str, typer.Option(help="A frozen suite of the domain.")] = "",
    tasks: Annotated[
        Path | None, typer.Option(help="A JSONL file of tasks instead of a suite.")
    ] = None,
    style: Annotated[str, typer.Option(help="Prompt style.")] = "",
    seed: Annotated[int, typer.Option(help="For policies that draw at random.")] = 0,
    limit: Annotated[int, typer.Option(min=0, help="Only the first so many tasks; 0: all.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")] = False,
    heatmap: Annotated[
        Path | None, typer.Option(help="Write the rates by bucket as a PNG picture.")
    ] = None,
) -> None:
    """Measure policies: valid and optimal rate by bucket, with 95 % Wilson intervals.

    Examples: coevolve evaluate -p oracle --json;  coevolve evaluate -p all --heatmap rates.png
    """
    from coevolve.cli.files import read_tasks
    from coevolve.cli.show import progress
    from coevolve.domains.registry import get_domain
    from coevolve.evaluation.evaluate import rollouts, tally
    from coevolve.policies.base import Sampling
    from coevolve.policies.scripted import ScriptedPolicy

    chosen = get_domain(domain)
    asked = policy or ["all"]
    names = list(chosen.scripts) if "all" in asked else asked
    policies = [ScriptedPolicy(chosen, name, style) for name in names]
    suite = suite or next(iter(chosen.suites))
    if tasks:
        found = list(read_tasks(chosen, tasks))
    else:
        make = lookup("suite", suite, chosen.suites)
        found = list(progress(make(), 0, f"building {suite}"))
    found = found[:limit] if limit else found
    if not found:
        raise UserError(f"{tasks or suite} holds no task")
    results: dict[str, Tally] = {}
    for member in policies:
        attempts = rollouts(chosen, member, found, Sampling(seed=seed), style)
        results[member.name] = tally(progress(attempts, len(found), member.name))
    where = str(tasks) if tasks else suite
    if as_json:
        objects = [as_object(chosen, name, where, counts) for name, counts in results.items()]
        print(json.dumps(objects[0] if len(objects) == 1 else objects))
    else:
        print_tables(chosen, where, results)
    if heatmap:
        from coevolve.cli.show import notes
        from coevolve.evaluation.heatmap import draw_heatmap

        draw_heatmap(results, chosen.panels, heatmap)
        notes.print(f"drew {heatmap}")


def as_object(domain: "Domain", policy: str, where: str, counts: "Tally") -> dict[str, Any]:
    """Everything measured of one policy, as plain JSON values."""
    whole = counts.by([])[0]
    return {
        "domain": domain.name,
        "suite": where,
        "policy": policy,
        "n": whole.valid.n,
        "valid": whole.valid.value,
        "optimal": whole.optimal.value,
        "valid_interval": [whole.valid.low, whole.valid.high],
        "optimal_interval": [whole.optimal.low, whole.optimal.high],
        "mean_reward": whole.reward,
        "failures": whole.failures,
        "buckets": [group.as_json() for group in counts.by(domain.panels)],
    }


def print_tables(domain: "Domain", where: str, results: "dict[str, Tally]") -> None:
    """One table over all policies, and for a single policy one by each label."""
    from coevolve.cli.show import out, rates

    rows = [(name, counts.by([])[0]) for name, counts in results.items()]
    out.print(rates(f"{domain.name}, {where}", "policy", rows))
    if len(results) > 1:
        return
    for label in domain.panels:
        groups = next(iter(results.values())).by([label])
        rows = [(str(group.labels[label]), group) for group in groups]
        out.print(rates(f"by {label}", label, rows))
