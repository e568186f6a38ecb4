"""`coevolve compare`: arms by seeds at equal rollouts, in one table with intervals."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coevolve.cli import choice
from coevolve.core.errors import UserError
from coevolve.core.names import typed

if TYPE_CHECKING:
    from coevolve.cluster.base import Cluster
    from coevolve.harness.comparison import Comparison


def compare(
    comparison: Annotated[
        str, typer.Argument(help="The name of a built-in comparison (--list), or a TOML file.")
    ] = "main",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder to write to. Default: runs/compare-NAME."),
    ] = None,
    arm: Annotated[
        list[str] | None, typer.Option("--arm", "-a", help="Only these arms; repeatable.")
    ] = None,
    seeds: Annotated[
        str, typer.Option(help="How many seeds, from 0, or a list such as 0,3,7.")
    ] = "",
    policy: Annotated[
        str, typer.Option("--policy", "-p", help="The policy that all arms begin with.")
    ] = "",
    versions: Annotated[
        int | None,
        typer.Option(
            "--versions", "--rounds", min=1, help="Versions of every arm that does not set them."
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps per version, as with -r steps=N.")
    ] = None,
    recipe: Annotated[
        list[str] | None, typer.Option("--recipe", "-r", help="NAME=VALUE, repeatable.")
    ] = None,
    tasks: Annotated[
        int | None, typer.Option(min=8, help="Fresh tasks to measure the last policies on.")
    ] = None,
    at_once: Annotated[
        int,
        typer.Option(
            min=0, help="Arms that run side by side on this machine; 0: one per two cores."
        ),
    ] = 0,
    ray: Annotated[
        str, typer.Option(help="Run arms on this Ray cluster: an address, auto, or local.")
    ] = "",
    cpus: Annotated[float, typer.Option(min=0, help="CPUs that an arm asks Ray for.")] = 2.0,
    gpus: Annotated[float, typer.Option(min=0, help="GPUs that an arm asks Ray for.")] = 0.0,
    retries: Annotated[
        int, typer.Option(min=0, help="How often to restart an arm whose worker was lost.")
    ] = 5,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show the arms, seeds and expected rollouts.")
    ] = False,
    list_all: Annotated[
        bool, typer.Option("--list", help="List the built-in comparisons.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")] = False,
) -> None:
    """Compare arms: one plan with different engineers, gates, or other settings.

    Arms of one seed share the policy and all held-out tasks, and train on equally many rollouts,
    including twins and controls. In the end every arm's last policy answers fresh dev tasks that
    no decision has used. The other arms are compared with the first one, seed by seed.

    Examples: coevolve compare main --arm fixed --arm frontier --seeds 3

      coevolve compare gate --dry-run

      coevolve compare my.toml --ray 10.0.0.1:6379 --cpus 4 --gpus 0.25

    Every arm is a run in OUTPUT/ARM/seed-N, which `coevolve status` reads. After a kill, the same
    command continues: finished arms are kept, others continue from their last phase. With --ray all
    machines must see OUTPUT under the same path and have coevolve installed. An arm whose machine
    is lost continues elsewhere.
    """
    from coevolve.cli.comparison_table import FILE, begin, report, show_plan, show_shipped
    from coevolve.cli.run import need_ray
    from coevolve.cli.show import PLAIN, clock, notes
    from coevolve.harness.comparison import load_comparison, unpaid

    if list_all:
        show_shipped(as_json)
        return
    fields = {**choice.recipe_fields(recipe or []), **choice.given({"steps": steps})}
    plan = {"policy": policy or None, "versions": versions, "recipe": fields or None}
    changes = {"plan": choice.given(plan), "seeds": seeds_of(seeds), "tasks": tasks}
    chosen = load_comparison(comparison, choice.given(changes), arm or [])
    from coevolve.cluster.compare import check_arms, run_comparison

    check_arms(chosen)
    if dry_run:
        show_plan(chosen, as_json)
        return
    folder = output or Path("runs") / f"compare-{chosen.name}"
    cluster = cluster_for(ray, at_once, cpus, gpus, retries)
    for job in chosen.jobs():
        need_ray(job.plan, ray)
    command = typed(*sys.argv[1:])
    fresh = not (folder / FILE).exists()
    if fresh and not ray:
        tell_needs(chosen, folder)
    if fresh and (line := unpaid(chosen)):
        notes.print(f"beware: {line}", **PLAIN)
    begin(chosen, folder, command)

    def say(line: str, seconds_left: float | None) -> None:
        left = "" if seconds_left is None else f"   [{clock(seconds_left)} left]"
        notes.print(line + left, **PLAIN)

    outcome = run_comparison(chosen, folder, cluster, say)
    report(chosen, outcome, folder, command, as_json)
    if outcome.failures:
        name, why = next(iter(outcome.failures.items()))
        raise UserError(
            f"{len(outcome.failures)} of {len(chosen.jobs())} failed, the first is {name}: {why}; "
            "the same command tries them again"
        )


def tell_needs(comparison: "Comparison", folder: Path) -> None:
    """What all arms will take, by the first of them; each arm looks at its own when it begins."""
    from coevolve.cli.show import PLAIN, notes
    from coevolve.domains.registry import get_domain
    from coevolve.engines.registry import get_engine
    from coevolve.loop.foresee import foresee

    jobs = [job for job in comparison.jobs() if job.trains]
    plan = jobs[0].plan
    domain, engine = get_domain(plan.domain), get_engine(plan.engine)
    foresee(plan, domain, engine, folder, lambda line: notes.print(line, **PLAIN), len(jobs))


def seeds_of(text: str) -> int | list[int] | None:
    """A count, or a list; None where nothing was given."""
    if not text:
        return None
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise UserError(f"--seeds {text!r} is neither a number nor a list such as 0,3,7") from None
    if not numbers:
        raise UserError(f"--seeds {text!r} names none; give how many, or a list such as 0,3,7")
    return numbers[0] if "," not in text else numbers


def cluster_for(ray: str, at_once: int, cpus: float, gpus: float, retries: int) -> "Cluster":
    """Where the arms run."""
    if ray:
        from coevolve.cluster.ray import RayCluster

        return RayCluster(ray, cpus, gpus, retries)
    from coevolve.cluster.processes import Processes

    return Processes(at_once, retries)
