"""`coevolve evaluate`: measure policies on tasks. Only one policy is in memory at a time."""

import gc
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coevolve.cli import choice
from coevolve.core.errors import UserError
from coevolve.core.seeds import digest

if TYPE_CHECKING:
    from coevolve.cli.rates import Measured


def evaluate(
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            "-p",
            help="Repeatable. A script of the domain, all (all scripts), pocket, smollm2, "
            f"{choice.OTHERS}.",
        ),
    ] = None,
    domain: Annotated[str, typer.Option("--domain", "-d", help="See `coevolve domains`.")] = "lake",
    suite: Annotated[str, typer.Option(help="A frozen suite of the domain.")] = "",
    tasks: Annotated[
        Path | None,
        typer.Option(help="Tasks from a JSONL file, or from hf:NAME:CONFIGURATION:SPLIT."),
    ] = None,
    split: Annotated[
        str,
        typer.Option(help="train, dev or gate: fresh tasks of this split, or those in --tasks."),
    ] = "",
    count: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"Fresh tasks of the split (unless given {choice.COUNT}, or all where a data set "
            "has fewer), or only the first so many of a suite or of --tasks.",
        ),
    ] = None,
    knob: choice.KnobValues = None,
    samples: choice.Samples = 1,
    temperature: choice.Temperature = None,
    max_tokens: choice.MaxTokens = 4096,
    style: choice.Style = "",
    seed: choice.Seed = 0,
    device: choice.Device = "",
    batch: Annotated[
        int, typer.Option(min=1, help="Attempts to draw at once, and to store in one file.")
    ] = 64,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Store the rollouts in this folder. After a kill, the same command continues.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")] = False,
    heatmap: Annotated[
        Path | None, typer.Option(help="Draw the rates by label into a PNG file.")
    ] = None,
) -> None:
    """Measure policies: valid and optimal rates by label, and pass@k, with 95 % intervals.

    Examples: coevolve evaluate -p oracle --json;  coevolve evaluate -p all --heatmap rates.png

    coevolve evaluate -p pocket --split dev --count 200 -n 8 -o measured
    """
    from coevolve.cli.rates import report
    from coevolve.domains.registry import get_domain

    chosen = get_domain(domain)
    if heatmap and len(chosen.panels) < 2:
        raise UserError(f"tasks of '{domain}' have fewer than two labels; leave --heatmap out")
    words = ((chosen.scripts if word == "all" else [word]) for word in policy or ["all"])
    names = list(dict.fromkeys(name for several in words for name in several))
    for name in names:
        choice.check_policy(chosen, name)
    choice.check_style(chosen, style)
    folders = folders_of(output, names)
    settings = choice.Settings(samples, temperature, max_tokens, seed, style, device, batch)
    found = choice.find_tasks(chosen, suite, tasks, split, count, knob, seed)
    results: dict[str, Measured] = {}
    for name in names:
        results[name] = measure(found, name, settings, folders[name])
        gc.collect()  # a model in a cycle of references would stay beside the next one
    report(found, results, as_json, heatmap)


def folders_of(output: Path | None, names: list[str]) -> dict[str, Path | None]:
    """Where each policy's rollouts go: the folder itself for a single policy, else one below."""
    if output is None or len(names) == 1:
        return dict.fromkeys(names, output)
    if (output / "evaluation.json").exists():
        raise UserError(
            f"{output} holds the evaluation of a single policy; name a new folder for several"
        )
    return {name: output / file_name(name) for name in names}


def file_name(policy: str) -> str:
    """A name that any file system takes, another one for every policy."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", policy).strip("-.")[-80:]
    return safe if safe == policy else f"{safe}-{digest(policy, size=4).hex()}".lstrip("-.")


def measure(
    found: choice.TaskList, name: str, settings: choice.Settings, folder: Path | None
) -> "Measured":
    """All attempts of one policy, counted."""
    from coevolve.cli.rates import Measured
    from coevolve.cli.show import PLAIN, notes, progress
    from coevolve.evaluation.attempts import attempts
    from coevolve.evaluation.tally import tally
    from coevolve.policies.models import weights_of
    from coevolve.store import evaluations

    domain, tasks = found.domain, found.tasks
    sampling = settings.sampling(scripted=name in domain.scripts)
    count = len(tasks) * settings.samples
    with choice.opened(name, domain, settings) as (policy, style):
        parts = None
        if folder:  # which keeps this very evaluation
            evaluation = evaluations.Evaluation(
                policy=name,
                domain=domain.name,
                source=found.origin,
                tasks=len(tasks),
                tasks_hash=evaluations.hash_of_tasks(tasks),
                samples=settings.samples,
                batch=settings.batch,
                sampling=sampling,
                style=style,
                weights_hash="" if name in domain.scripts else weights_of(name),
            )
            parts = evaluations.EvaluationFolder(folder, evaluation)
        if name not in domain.scripts:  # of a large model the first answers take long
            most = f"{sampling.max_tokens:,} tokens each (--max-tokens)"
            notes.print(f"{name}: {count:,} answers of at most {most}", **PLAIN)
        made = attempts(
            domain,
            policy,
            tasks,
            sampling,
            style=style,
            samples=settings.samples,
            batch=settings.batch,
            parts=parts,
        )
        counts = tally(progress(made, count, name))
    if parts and parts.reused:
        notes.print(f"{parts.reused} parts of {folder} were there already", highlight=False)
    return Measured(counts, sampling, style)
