"""`coevolve train`: one stage of training, watched while it runs."""

import json
import os
import shlex
import tomllib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from coevolve.cli import choice
from coevolve.core.errors import UserError
from coevolve.core.names import lookup

if TYPE_CHECKING:
    from coevolve.core.task import Task
    from coevolve.domains.base import Domain
    from coevolve.engines.base import Progress, Result, Stage
    from coevolve.harness.recipe import Recipe

DOMAIN = "lake"
TRACKING = ("none", "trackio", "tensorboard", "wandb", "mlflow")
NUMBERS = {
    "loss": "loss {:.3g}", "reward": "reward {:.3f}", "entropy": "entropy {:.3f}",
    "valid": "valid {:.0%}", "dead": "dead {:.0%}", "token_accuracy": "token accuracy {:.0%}",
}  # fmt: skip
"""Of a step that are shown."""
MOST_TASKS = 20_000
"""So many tasks are generated at most; a longer stage sees them again."""


def parse_recipe(words: list[str]) -> "Recipe":
    """A recipe from a TOML file and NAME=VALUE words over it."""
    from coevolve.harness.check import checked
    from coevolve.harness.recipe import Recipe

    files = [Path(word) for word in words if "=" not in word]
    if len(files) > 1:
        raise UserError(f"give one recipe file, not {len(files)}")
    values: dict[str, Any] = {}
    for file in files:
        try:
            values = tomllib.loads(file.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"cannot read the recipe {file}: {error}") from None
    for name in values:
        lookup("recipe field", name, Recipe.model_fields)
    pairs = choice.recipe_fields([word for word in words if "=" in word])
    return checked(Recipe, {**values, **pairs}, "recipe")


def train(
    kind: Annotated[
        str, typer.Argument(help="grpo: reinforcement learning. warm: imitate the oracle.")
    ] = "grpo",
    policy: Annotated[
        str, typer.Option("--policy", "-p", help="pocket, smollm2, a folder, or a hub id.")
    ] = "pocket",
    domain: Annotated[str, typer.Option("--domain", "-d", help="See `coevolve domains`.")] = DOMAIN,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="Folder of the stage. After a kill, the same command continues."
        ),
    ] = Path("runs/stage"),
    recipe: Annotated[
        list[str] | None,
        typer.Option("--recipe", "-r", help="NAME=VALUE or a TOML file, repeatable."),
    ] = None,
    knob: choice.KnobValues = None,
    tasks: Annotated[
        Path | None,
        typer.Option(help="Train tasks from this JSONL file, instead of generated ones."),
    ] = None,
    lessons: Annotated[
        float,
        typer.Option(min=0, max=0.99, help="Share of generated tasks that teach engineering."),
    ] = 0.0,
    style: Annotated[
        str, typer.Option(help="Prompt style, or DOMAIN=STYLE,.... Default: as it was taught.")
    ] = "",
    seed: Annotated[int, typer.Option(help="Same seed, same run.")] = 0,
    engine: Annotated[
        str, typer.Option(help="trl, command:PROGRAM, or one from an installed package.")
    ] = "trl",
    device: choice.Device = "",
    processes: Annotated[
        int,
        typer.Option(
            min=1, max=1_024, help="Training processes on this machine, through accelerate."
        ),
    ] = 1,
    workers: Annotated[
        int, typer.Option(min=0, max=1_024, help="Training processes on a Ray cluster (--ray).")
    ] = 0,
    ray: Annotated[
        str, typer.Option(help="Train workers on this Ray cluster: an address, auto, or local.")
    ] = "",
    cpus: Annotated[float, typer.Option(min=0.01, help="CPUs per worker on Ray.")] = 1.0,
    gpus: Annotated[float, typer.Option(min=0, max=1, help="GPUs per worker on Ray.")] = 0.0,
    checkpoints: Annotated[
        str,
        typer.Option(
            help="Keep checkpoints there, with --ray: a folder, or an address such as "
            "s3://BUCKET/NAME."
        ),
    ] = "",
    sharding: Annotated[
        str,
        typer.Option(
            help="none; full: each process holds a part of the weights; auto: full from 1B on."
        ),
    ] = "auto",
    tracking: Annotated[
        str, typer.Option(help="none, trackio, tensorboard, wandb or mlflow.")
    ] = "none",
    save_every: Annotated[
        int, typer.Option(min=0, help="Steps between checkpoints; 0: chosen by stage and model.")
    ] = 0,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Only show all training settings and the reasons for them."),
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only estimate memory, disk and time, and try two steps.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train a policy on tasks of a domain. It is safe to kill, and to run again.

    Examples: coevolve train grpo -r steps=40 -r learning_rate=1e-4 -k agents3.share=1

      coevolve train warm -p smollm2 -r steps=200 -r tasks=32 -o runs/warm

      coevolve train -p MODEL -d math --workers 16 --gpus 1 --ray auto -o /shared/stage

      coevolve train warm -p smollm2 --lessons 0.2 --style cells,engineering=table

    All fields of a recipe: coevolve train --explain

    Afterwards: coevolve evaluate -p FOLDER/policy
    """
    from coevolve.domains.registry import get_domain
    from coevolve.engines.base import Foresees, Stage
    from coevolve.harness.recipe import Sharding
    from coevolve.harness.rules import ClusterRule

    lookup("kind of training", kind, dict.fromkeys(("grpo", "warm")))
    lookup("sharding", sharding, dict.fromkeys(get_args(Sharding)))
    lookup("tracking", tracking, dict.fromkeys(TRACKING))
    check_workers(workers, ray, processes, engine, plan, checkpoints)
    if checkpoints and "://" not in checkpoints:  # workers stand in other folders
        checkpoints = str(Path(checkpoints).resolve())
    chosen = get_domain(domain)
    choice.check_policy(chosen, policy)
    check_styles(style, [domain, "engineering"] if lessons else [domain])
    stage = Stage(
        kind=kind,  # type: ignore[arg-type]
        model=policy,
        recipe=parse_recipe(recipe or []),
        style=style,
        seed=seed,
        folder=output,
        device=device,
        processes=workers or processes,
        cluster=ClusterRule(
            workers=workers, cpus_per_worker=cpus, gpus_per_worker=gpus, checkpoints=checkpoints
        ),
        sharding=sharding,  # type: ignore[arg-type]
        save_every=save_every,
        tracking=tracking,  # type: ignore[arg-type]
    )
    from coevolve.cli.show import PLAIN, notes
    from coevolve.policies.models import find

    find(policy)  # a wrong name should not wait for tasks and torch
    if explain:
        show_settings(stage, as_json)
        return
    from coevolve.engines.registry import get_engine
    from coevolve.engines.stage import read_steps, settled

    trainer, stage = get_engine(engine), settled(stage, engine)
    found = training_tasks(chosen, stage, knob or [], tasks, lessons)
    if plan:
        show_plan(stage, found, as_json)
        return
    notes.print(f"{kind} on {len(found)} tasks of {domain}, in {output}")
    begun = (output / "stage.json").exists()  # then some of it is there already
    done = len(read_steps(output / "steps.jsonl"))
    if begun and done < stage.recipe.steps:
        notes.print(f"steps that are recorded there already: {done}", **PLAIN)
    if not begun and isinstance(trainer, Foresees) and (line := trainer.foresee(stage, found)):
        notes.print(line, **PLAIN)
    with on_cluster(ray, stage), display() as show:
        result = trainer.train(stage, found, show)
    if as_json:
        print(result.model_dump_json())
    else:
        show_result(stage, result, domain, knob or [])


def check_workers(
    workers: int, ray: str, processes: int, engine: str, plan: bool, checkpoints: str
) -> None:
    """Refuse workers of a cluster beside what they cannot go with."""
    if bool(workers) != bool(ray):
        raise UserError("--workers N and --ray ADDRESS go together: how many train, and where")
    if checkpoints and not workers:
        raise UserError(f"--checkpoints {checkpoints} needs --workers N and --ray ADDRESS")
    if workers and processes > 1:
        raise UserError(f"--workers {workers} and --processes {processes}: give one of them")
    if workers and engine != "trl":
        raise UserError(f"--workers {workers} needs the engine trl, not {engine!r}")
    if workers and plan:
        raise UserError("--plan tries two steps on this machine; leave --workers and --ray out")


def on_cluster(ray: str, stage: "Stage") -> AbstractContextManager[None]:
    """A connection to the cluster that trains, if one does."""
    if not ray:
        return nullcontext()
    from coevolve.cluster.ray import spanning

    return spanning(ray, stage.cluster)


def check_styles(wanted: str, domains: list[str]) -> None:
    """Refuse styles that these domains do not have, and styles of others, which nobody reads."""
    from coevolve.domains.registry import get_domain
    from coevolve.policies.models import named_styles, style_for

    for name in named_styles(wanted).keys() - {""}:
        lookup("domain of this stage", name, dict.fromkeys(domains))
    for name in domains:
        choice.check_style(get_domain(name), style_for(name, wanted))


def training_tasks(
    domain: "Domain", stage: "Stage", knob: list[str], file: Path | None, lessons: float
) -> "list[Task]":
    """The stage's tasks: from a file, or generated from knobs and seed."""
    from coevolve.cli.show import notes, progress
    from coevolve.cli.tasks import parse_changes
    from coevolve.core.seeds import derive
    from coevolve.core.splits import Split
    from coevolve.domains.files import read_tasks
    from coevolve.engineering.lessons import with_lessons

    if file:
        if knob or lessons:
            raise UserError("give knobs and lessons or a file of tasks, not both")
        found = list(read_tasks(domain, file))
        own = [task for task in found if task.split is Split.TRAIN]
        if not own:
            raise UserError(f"{file} holds no task of the train split ({len(found)} of others)")
        if len(own) < len(found):
            notes.print(f"{len(found) - len(own)} tasks of {file} belong to other splits: left out")
        return own
    count = min(stage.recipe.distinct, MOST_TASKS)
    knobs = domain.space.parse(parse_changes(knob))
    seed = derive(stage.seed, "tasks")
    rest = count - round(lessons * count)
    workers = os.cpu_count() or 1
    made = domain.generate(knobs, rest, seed, Split.TRAIN, workers)
    return with_lessons(list(progress(made, rest, "generating")), count, seed, workers)


def show_settings(stage: "Stage", as_json: bool) -> None:
    """The recipe's fields, and everything that follows from them."""
    from rich.table import Table

    from coevolve.cli.show import out
    from coevolve.engines.trl.engine import TrlEngine
    from coevolve.harness.recipe import Recipe

    found = TrlEngine().settings(stage)
    if as_json:
        derived = {name: {"value": value, "why": reason} for name, value, reason in found}
        facts = {"recipe": stage.recipe.model_dump(), "derived": derived}
        print(json.dumps(facts, default=str))
        return
    table = Table("field", "value", title="recipe: what you can set", title_justify="left")
    for name in Recipe.model_fields:
        table.add_row(name, str(getattr(stage.recipe, name)))
    out.print(table)
    table = Table("setting of TRL", "value", "why", title="derived", title_justify="left")
    for name, value, reason in found:
        table.add_row(name, str(value), reason)
    out.print(table)


def show_plan(stage: "Stage", tasks: "list[Task]", as_json: bool) -> None:
    """What a stage will take: reckoned, and by two steps that are tried and thrown away."""
    from rich.table import Table

    from coevolve.cli.show import PLAIN, clock, notes, out
    from coevolve.engines.stage import domains_of
    from coevolve.engines.trl.engine import TrlEngine
    from coevolve.engines.trl.fit import doubts, fit_of, refuse_full, refuse_misfit, room_for

    if stage.kind != "grpo":
        raise UserError("--plan is for grpo; a warm start takes less than that with the same model")
    fit = fit_of(stage, tasks, domains_of((task.domain for task in tasks), {}))
    room = room_for(stage)
    refuse_misfit(fit, stage, room)
    refuse_full(fit, stage, room)
    notes.print("trying two steps", highlight=False)
    with TemporaryDirectory() as folder:
        few = stage.recipe.model_copy(update={"steps": 2})
        tried = stage.model_copy(
            update={"recipe": few, "folder": Path(folder) / "stage", "save_every": 2}
        )
        seen: list[Progress] = []
        TrlEngine().train(tried, tasks[: few.distinct], seen.append)
    last = seen[-1].metrics
    each = stage.recipe.tasks * stage.recipe.group
    # A step that draws dead groups again takes rollouts of later ones.
    seconds, steps = last["seconds"], stage.recipe.rollouts / last.get("rollouts", each)
    measured = {
        "step_s": seconds,
        "drawing_s": last.get("drawing_s", 0.0),
        "steps": steps,
        "seconds": seconds * steps,
        "memory_gib": max((one.metrics.get("memory_gib", 0.0) for one in seen), default=0.0),
    }
    if as_json:
        there = {"gpu" if room.gpu else "machine": room.memory, "free": room.disk}
        gib = {**fit._asdict(), "peak": fit.peak, "disk": fit.disk(), **there}
        print(json.dumps({"lora": stage.recipe.rank, "gib": gib, "measured": measured}))
        return
    where = "a GPU" if room.gpu else "this machine, without a GPU, per process"
    table = Table("part", "GiB", title=f"memory, on {where}", title_justify="left")
    for name in ("weights", "gradients", "optimiser", "copy", "cache", "activations", "peak"):
        table.add_row(name, f"{getattr(fit, name):.2f}")
    if measured["memory_gib"]:
        table.add_row("peak of the two steps", f"{measured['memory_gib']:.2f}")
    table.add_row("there is", f"{room.memory:.2f}")
    out.print(table)
    rank = stage.recipe.rank
    out.print(
        f"trained: {f'adapters of rank {rank}' if rank else 'all weights'} (lora = {rank})", **PLAIN
    )
    for doubt in doubts(fit, stage, room):
        out.print(f"[bold]{doubt}[/bold]", highlight=False)
    about = "about " if stage.recipe.redraw else ""
    out.print(
        f"disk: about {fit.disk():.2f} GiB ({fit.saved():.2f} checkpoints, {fit.rollouts:.2f} "
        f"rollouts), {room.disk:.2f} are free\n"
        f"time: {about}{steps:.0f} steps of {seconds:.1f} s, {clock(measured['seconds'])} in all",
        highlight=False,
    )


@contextmanager
def display() -> "Iterator[Callable[[Progress], None]]":
    """What is called after every step: one line that follows the stage on a terminal, a line per
    tenth of it elsewhere."""
    from rich.live import Live

    from coevolve.cli.show import clock, metric_words, notes
    from coevolve.engines.stage import doubt

    live = Live(console=notes, transient=True, auto_refresh=False)
    before = 0.0

    def show(progress: "Progress") -> None:
        nonlocal before
        if words := doubt(progress):
            notes.print(f"beware: {words}", highlight=False)
        found = progress.metrics
        parts = [f"step {progress.step}/{progress.steps}", *metric_words(found, NUMBERS)]
        tokens, before = found.get("tokens", 0.0) - before, found.get("tokens", 0.0)
        if found.get("seconds"):
            parts.append(f"{tokens / found['seconds']:,.0f} tokens/s")
        text = "  ".join([*parts, f"{clock(progress.seconds_left)} left"])
        if notes.is_terminal:
            live.update(text, refresh=True)
        elif progress.step % max(1, progress.steps // 10) == 0:
            notes.print(text, highlight=False)

    with live if notes.is_terminal else nullcontext():
        yield show


def asking(stage: "Stage", domain: str) -> str:
    """Options with which `evaluate` asks as the stage did, where they are not its defaults."""
    from coevolve.policies.models import style_for

    style = style_for(domain, stage.style)
    named = f" -d {shlex.quote(domain)}" if domain != DOMAIN else ""
    return f"{named} --style {style}" if style else named


def show_result(stage: "Stage", result: "Result", domain: str, knobs: list[str]) -> None:
    """What came of the stage, in words, and what to do next."""
    from coevolve.cli.show import PLAIN, clock, notes, out
    from coevolve.engines.stage import learned, read_steps

    if words := learned(read_steps(stage.folder / "steps.jsonl")):
        out.print(words, **PLAIN)
    if result.stopped:
        notes.print(f"[bold]stopped early:[/bold] {result.stopped}", highlight=False)
    for skill, found in result.skills.items():
        before, after = found.get("before", float("nan")), found.get("after", float("nan"))
        out.print(
            f"{skill}: {before:.0%} before, {after:.0%} after (n {found['n']:.0f})", highlight=False
        )
    facts = {name: float(f"{value:.4g}") for name, value in result.metrics.items()}
    out.print_json(json.dumps({"steps": result.steps, "rollouts": result.rollouts, **facts}))
    out.print(f"policy: {result.policy}   ({clock(result.seconds)})", **PLAIN)
    out.print(
        f"next: coevolve evaluate -p {shlex.quote(result.policy)}{asking(stage, domain)} "
        f"--split dev --count 300{choice.as_options(knobs)}",
        **PLAIN,
    )
