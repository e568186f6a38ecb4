"""`coevolve run`: a lineage of versions, as a plan says."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coevolve.cli.choice import check_policy, given
from coevolve.core.errors import UserError
from coevolve.core.names import typed

if TYPE_CHECKING:
    from rich.table import Table

    from coevolve.cli.live import Plain
    from coevolve.domains.knobs import KnobSpace
    from coevolve.harness.plan import Plan
    from coevolve.loop.run import Run as LoopRun
    from coevolve.store.jobs import Work
    from coevolve.store.lineage import Lineage

PLAN = "rounds"
"""What runs when no plan is named."""
FOLDED = 60
"""Characters after which what a version changes, and its verdict, are folded in a file or pipe."""

AtOnce = Annotated[int, typer.Option(min=1, help="How many versions train side by side.")]
Ray = Annotated[
    str,
    typer.Option(
        help="Train versions on this Ray cluster: an address, auto, or local. Each version gets "
        "the plan's cluster.workers."
    ),
]
Cpus = Annotated[float, typer.Option(min=0, help="CPUs per version on Ray.")]
Gpus = Annotated[float, typer.Option(min=0, help="GPUs per version on Ray.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")]


def run(
    plan: Annotated[
        str, typer.Argument(metavar="PLAN", help="The name of a preset, or a TOML file.")
    ] = PLAN,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to write to. Default: runs/NAME.")
    ] = None,
    domain: Annotated[
        str | None,
        typer.Option("--domain", "-d", help="Replaces the plan's domain and knobs."),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option("--policy", "-p", help="The model to train. Replaces the plan's."),
    ] = None,
    engineer: Annotated[
        list[str] | None,
        typer.Option(
            "--engineer", "-e", help="Who proposes changes; repeatable, the preferred one first."
        ),
    ] = None,
    versions: Annotated[
        int | None,
        typer.Option(
            "--versions", "--rounds", min=1, help="How many versions to train, including version 0."
        ),
    ] = None,
    width: Annotated[
        int | None, typer.Option(min=1, help="How many versions grow from one parent at a time.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Replaces the plan's seed.")] = None,
    knob: Annotated[
        list[str] | None,
        typer.Option("--knob", "-k", help="NAME=VALUE for the tasks it begins with; repeatable."),
    ] = None,
    recipe: Annotated[
        list[str] | None, typer.Option("--recipe", "-r", help="NAME=VALUE, repeatable.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", help="NAME=VALUE for any setting of the plan; repeatable."),
    ] = None,
    at_once: AtOnce = 1,
    ray: Ray = "",
    cpus: Cpus = 2.0,
    gpus: Gpus = 0.0,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Only print the whole plan and where each value comes from."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a plan: train and judge versions, with one change by an engineer between them.

    Presets: in rounds, the checkpoint redesigns its training tasks. In tree, tree-math and
    tree-code, the training harness evolves. After a kill, the same command continues the run, and
    so does `coevolve resume FOLDER`.

    Engineers: rules (follows skills; needs no model); for knobs alone aim, fixed, random, uniform,
    learnability, bandit, ceiling, target, frontier; as models policy (the checkpoint itself), base
    (the untrained policy), smollm2, or http://HOST/v1#MODEL.

    Examples: coevolve run

      coevolve run rounds --engineer policy --versions 5 --set control=true

      coevolve run tree --at-once 2

      coevolve run -d data:problems.jsonl -p small --engineer aim -r steps=40

      coevolve run my.toml --explain
    """
    named = {
        "domain": domain, "policy": policy, "engineers": engineer, "versions": versions,
        "width": width, "seed": seed,
    }  # fmt: skip
    pairs = [f"knobs.{pair}" for pair in knob or []] + [f"recipe.{pair}" for pair in recipe or []]
    changes = settings_of([*pairs, *(setting or [])]) | given(named)
    if explain:
        show_plan(plan, changes, as_json)
        return
    from coevolve.cli.live import view_of
    from coevolve.harness.plan import load_plan
    from coevolve.loop.create import create

    chosen, work = load_plan(plan, changes), side_by_side(at_once, ray, cpus, gpus)
    need_ray(chosen, ray)
    folder, view = output or Path("runs") / chosen.name, view_of(as_json)
    made = create(chosen, folder, view.tell, view.say, work=work, here=not ray)
    finish(made, view, as_json)


def settings_of(pairs: list[str]) -> dict[str, Any]:
    """NAME=VALUE pairs as a sparse plan; values are read as in TOML, or else as text."""
    import tomllib

    from coevolve.harness.plan import merged

    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise UserError(f"{pair!r} is not NAME=VALUE, such as gate.margin=0.01")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except ValueError:
            value = text
        before, is_knob, knob = name.strip().partition("knobs.")  # names of knobs have dots
        parts = before.rstrip(".").split(".") if before else []
        parts += ["knobs", knob] if is_knob else []
        for part in reversed(parts):
            value = {part: value}
        found = merged(found, value)
    return found


def show_plan(name: str, changes: dict[str, Any], as_json: bool) -> None:
    """Every setting, and where it comes from."""
    from rich.table import Table
    from rich.text import Text

    from coevolve.cli.show import out
    from coevolve.domains.registry import get_domain
    from coevolve.harness.plan import explained, load_plan
    from coevolve.loop.create import check

    found, plan = explained(name, changes), load_plan(name, changes)
    # Names that no run can go by are refused here, too, without what an engine imports.
    check(plan, lambda policy, _: check_policy(get_domain(plan.domain), policy))
    if as_json:
        print(json.dumps([one._asdict() for one in found]))
        return
    table = Table("setting", "value", "from", header_style="bold")
    for one in found:
        text = one.value if isinstance(one.value, str) else json.dumps(one.value)
        style = "dim" if one.where == "default" else ""
        table.add_row(one.setting, Text(text), one.where, style=style)
    out.print(table)


def side_by_side(at_once: int, ray: str, cpus: float, gpus: float) -> "Work | None":
    """Where versions train; None: in this process, one after the other."""
    if at_once == 1 and not ray:
        return None
    from coevolve.cli.compare import cluster_for
    from coevolve.cluster.base import in_cluster

    return in_cluster(cluster_for(ray, at_once, cpus, gpus, retries=5))


def need_ray(plan: "Plan", ray: str) -> None:
    """Refuse workers of a cluster that nobody has named, before anything is begun."""
    if plan.cluster.workers and not ray:
        raise UserError(
            f"cluster.workers = {plan.cluster.workers} needs a Ray cluster; say where it is with "
            "--ray ADDRESS"
        )


def finish(run: "LoopRun", view: "Plain", as_json: bool) -> None:
    """Run to the end and say what came of it."""
    from coevolve.cli.show import PLAIN, out, visible
    from coevolve.dashboard.answers import answers_of

    tell_if_done(run)
    lineage = view.run(run)
    best = lineage.best
    policy = run.paths.find(lineage.policy(best.version if best else None))
    if as_json:
        print(json.dumps(facts_of(lineage, policy)))
        return
    space = run.gauge.domain.space
    out.print(table_of(lineage, space, None if out.is_terminal else FOLDED))
    for line in answers_of(lineage, space).lines:
        out.print(visible(line), **PLAIN)
    if best:
        name = "no training" if best.version is None else f"version {best.version}"
        out.print(f"ends with: {name}, {policy}", **PLAIN)
    folder = run.ledger.folder
    out.print(f"look at it: {typed('report', folder, '--open')}", **PLAIN)
    out.print(f"measure it on unused tasks: {typed('final', folder)}", **PLAIN)


def table_of(lineage: "Lineage", space: "KnobSpace", most: int | None) -> "Table":
    """A line per version; what it changes and its verdict are folded at so many characters."""
    from rich.table import Table
    from rich.text import Text

    from coevolve.cli.show import visible
    from coevolve.dashboard.numbers import percent
    from coevolve.domains.change import version_words
    from coevolve.harness.plan import RATES

    table = Table(title="on gate tasks", title_justify="left", header_style="bold")
    for name in ("version", "parent", "change", "valid", "optimal", "verdict"):
        width = most if name in ("change", "verdict") else None
        table.add_column(name, max_width=width, overflow="fold")
    for node in lineage.nodes:
        version = node.version
        words = version_words(version, lineage.harness(version.parent), space)
        by = f" ({version.author})" if version.patch else ""
        rates = node.gate.scores.rates.values() if node.gate else ()
        table.add_row(
            str(version.number),
            "" if version.parent is None else str(version.parent),
            Text(visible(f"{words}{by}")),
            *map(percent, rates),
            *([""] * (0 if node.gate else len(RATES))),
            Text(visible(version.words)),
        )
    return table


def tell_if_done(run: "LoopRun") -> None:
    """Say of a run that was finished before how it can go on."""
    from coevolve.cli.show import PLAIN, notes

    if run.ledger.state() == "done":
        planned = run.plan.versions
        notes.print(
            f"nothing is left to do: all {planned} versions are trained and judged; for more, "
            f"{typed('resume', run.ledger.folder, '--versions', planned + 1)}",
            **PLAIN,
        )


def facts_of(lineage: "Lineage", policy: str) -> dict[str, Any]:
    """A finished run for scripts."""
    best, base = lineage.best, lineage.base
    return {
        "best": best.version if best else None,
        "policy": policy,
        "words": best.words if best else "",
        "base": base.model_dump(mode="json", exclude={"spent"}) if base else None,
        "spread": lineage.noise.spread if lineage.noise else None,
        "control_rollouts": lineage.control_rollouts,
        "versions": [
            {
                **node.version.model_dump(mode="json"),
                "gate": node.gate.scores.model_dump(mode="json", exclude={"spent"})
                if node.gate
                else None,
            }
            for node in lineage.nodes
        ],
    }
