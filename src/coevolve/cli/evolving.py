"""`coevolve evolve`: a tree of versions, each with one change of the training harness."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from coevolve.cli.live import View
    from coevolve.evolution.best import Best
    from coevolve.evolution.evolving import Evolving
    from coevolve.evolution.growing import Grow
    from coevolve.harness.version import Version


def evolve(
    evolution: Annotated[
        str, typer.Argument(help="tree (on the lake), tree-math, tree-code, or a TOML file.")
    ] = "tree",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder; runs/NAME if not given.")
    ] = None,
    trainer: Annotated[
        list[str] | None,
        typer.Option("--trainer", "-t", help="Repeatable; who proposes patches, by preference."),
    ] = None,
    versions: Annotated[
        int | None, typer.Option(min=1, help="How many are trained, the root among them.")
    ] = None,
    width: Annotated[
        int | None, typer.Option(min=1, help="How many grow from one parent at a time.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Instead of the file's.")] = None,
    at_once: Annotated[
        int, typer.Option(min=1, help="Versions that train side by side, in processes.")
    ] = 1,
    ray: Annotated[
        str, typer.Option(help="Address of a Ray cluster, auto, or local: versions train there.")
    ] = "",
    cpus: Annotated[float, typer.Option(min=0, help="CPUs that a version asks Ray for.")] = 2.0,
    gpus: Annotated[float, typer.Option(min=0, help="GPUs that a version asks Ray for.")] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")] = False,
) -> None:
    """Grow a tree of versions: diagnose, change one factor of the harness, backtest it, train,
    judge, and learn from it.

    A version is kept if it is better than its parent beyond noise and no diagnostic says that it
    cheats; the tree ends with the untrained policy if no version is better than that. Killed, it
    goes on with the same command, or with `coevolve resume FOLDER`.

    Trainers: rules (no model needed), any knob engineer such as frontier, policy (the checkpoint
    itself), base (the untrained one), smollm2, or http://HOST/v1#MODEL.
    """
    from coevolve.harness.evolution import load_evolution

    named: dict[str, Any] = {
        "trainers": trainer, "versions": versions, "width": width, "seed": seed,
    }  # fmt: skip
    changes = {name: value for name, value in named.items() if value is not None}
    chosen = load_evolution(evolution, changes)
    from coevolve.cli.live import view_of
    from coevolve.engines.trl.engine import TrlEngine
    from coevolve.evolution.assembly import create_tree

    folder, view = output or Path("runs") / chosen.name, view_of(as_json)
    grow = side_by_side(at_once, ray, cpus, gpus)
    finish(create_tree(chosen, folder, TrlEngine(), view.tell, view.say, grow), view, as_json)


def side_by_side(at_once: int, ray: str, cpus: float, gpus: float) -> "Grow | None":
    """Where versions train; None: in this process, one after the other."""
    if at_once == 1 and not ray:
        return None
    from coevolve.cli.comparing import cluster_for
    from coevolve.cluster.growing import in_cluster

    return in_cluster(cluster_for(ray, at_once, cpus, gpus, retries=5))


def finish(tree: "Evolving", view: "View", as_json: bool) -> None:
    """Run to the end and say what came of it."""
    from rich.table import Table
    from rich.text import Text

    from coevolve.cli.show import PLAIN, out, visible

    best: Best = view.run(tree)
    policy = tree.best_policy
    if as_json:
        facts = {
            "best": best.version,
            "policy": policy,
            "words": best.words,
            "base": {name: tree.base[name] for name in ("valid", "n")},
            "noise_floor": tree.floor,
            "versions": [version.model_dump(mode="json") for version in tree.versions],
        }
        print(json.dumps(facts))
        return
    table = Table("version", "parent", "change", "verdict", header_style="bold")
    for version in tree.versions:
        table.add_row(
            str(version.number),
            "" if version.parent is None else str(version.parent),
            Text(visible(changed(version))),
            Text(visible(version.words)),
        )
    out.print(table)
    name = "no training" if best.version is None else f"version {best.version}"
    out.print(visible(best.words), **PLAIN)
    out.print(f"best: {name}, {policy}", **PLAIN)
    out.print(
        f"why: coevolve diagnose {tree.ledger.folder}; on tasks that decided nothing: "
        f"coevolve final {tree.ledger.folder}",
        **PLAIN,
    )


def changed(version: "Version") -> str:
    """What sets a version apart, in a few words."""
    if version.merged:
        return f"versions {version.merged[0]} and {version.merged[1]} together"
    if version.patch is None:
        return "the root"
    value = version.patch.value
    shown = value if isinstance(value, str | int | float) else json.dumps(value)
    return (
        f"{version.patch.factor} = {shown:.60}"
        if isinstance(shown, str)
        else (f"{version.patch.factor} = {shown:g}")
    )
