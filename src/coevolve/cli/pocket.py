"""`coevolve pocket`: the small model that knows the lake: look at it, or build one."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coevolve.core.errors import UserError
from coevolve.core.files import replace_file
from coevolve.store.payload import flat

if TYPE_CHECKING:
    from coevolve.pocket import Progress

app = typer.Typer(
    no_args_is_help=True,
    help="""The pocket policy: a small language model that plans on the lake.

It is trained from scratch on optimal plans, in minutes on one GPU, and is shipped with the package.

Example: coevolve pocket build --output my-pocket
""",
)

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")]
SAID_SHARE = 20
"""Progress is told about this many times in each stage."""


def teller(hurried: bool) -> "Callable[[Progress], None]":
    """Says how a build goes, on standard error; `hurried` where there is a GPU, so that nobody
    needs to be told how long it takes."""
    from coevolve.cli.show import notes

    began: dict[str, tuple[float, int]] = {}
    marks: dict[str, int] = {}

    def tell(progress: "Progress") -> None:
        nonlocal hurried
        stage, done, total = progress.stage, progress.done, progress.total
        now = time.perf_counter()
        start, first = began.setdefault(stage, (now, done))
        if stage == "training" and not hurried and done > first:
            hurried = True
            minutes = (now - start) / (done - first) * total / 60
            notes.print(
                f"no GPU here: {total} steps will take about {minutes:.0f} minutes; fewer --steps, "
                "a smaller --batch or --width take less"
            )
        mark = done * SAID_SHARE // total
        if mark > marks.get(stage, 0):
            marks[stage] = mark
            loss = "" if progress.loss is None else f"  loss {progress.loss:.4f}"
            notes.print(f"{stage} {done}/{total}{loss}  {now - start:.0f} s", highlight=False)

    return tell


@app.command()
def demonstrations(
    output: Annotated[Path, typer.Option("--output", "-o", help="The .npz file to write.")],
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Tasks to solve.")] = 400_000,
    lessons: Annotated[
        int, typer.Option(min=0, help="How many lessons in engineering to add.")
    ] = 60_000,
    seed: Annotated[int, typer.Option(help="Same seed, same demonstrations.")] = 0,
    workers: Annotated[int, typer.Option(min=0, help="Processes; 0 for one per core.")] = 0,
) -> None:
    """Make the data that the pocket policy learns from.

    These are train tasks with optimal plans, and lessons in engineering with their best designs.

    The default takes 25 minutes on two cores. Example: coevolve pocket demonstrations -o demos.npz
    """
    from coevolve.cli.show import notes
    from coevolve.pocket import arrays
    from coevolve.pocket.demonstrations import make_demonstrations

    made = make_demonstrations(count, lessons, seed, workers, teller(hurried=True))
    arrays.write(made, output)
    notes.print(f"{made.total} demonstrations in {output}")


@app.command()
def build(
    output: Annotated[Path, typer.Option("--output", "-o", help="The model folder to write.")],
    demonstrations: Annotated[
        Path | None,
        typer.Option(help="A file from `coevolve pocket demonstrations`. Default: made now."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of weights, batches and new demonstrations.")] = 0,
    steps: Annotated[
        int, typer.Option(min=1, help="Training steps; more make a better policy.")
    ] = 1200,
    batch: Annotated[int, typer.Option(min=1, help="Demonstrations per step.")] = 1024,
    learning_rate: Annotated[
        float, typer.Option(help="The peak, reached after 200 steps.")
    ] = 2.5e-3,
    final_rate: Annotated[
        float, typer.Option(help="Share of the peak that is left at the last step.")
    ] = 0.1,
    width: Annotated[int, typer.Option(help="Numbers per token; a multiple of 32.")] = 160,
    layers: Annotated[int, typer.Option(min=1)] = 4,
    snapshot: Annotated[
        list[int] | None,
        typer.Option(help="Also keep the model after this step, in OUTPUT-stepSTEP; repeatable."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing model folder.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a pocket policy from scratch and write it as a transformers folder.

    Example: coevolve pocket build -o my-pocket --demonstrations demos.npz

    To see it learn: coevolve pocket build -o my-pocket --snapshot 200 --snapshot 400
    """
    try:
        import torch
        import transformers  # noqa: F401
    except ImportError as error:
        raise UserError(f"building needs {error.name}; pip install 'coevolve[train]'") from None
    from coevolve.cli.show import notes
    from coevolve.pocket.build import build as build_model

    record = build_model(
        output,
        seed=seed,
        steps=steps,
        batch=batch,
        learning_rate=learning_rate,
        final_rate=final_rate,
        width=width,
        layers=layers,
        demonstrations=demonstrations,
        snapshots=tuple(snapshot or ()),
        force=force,
        progress=teller(hurried=torch.cuda.is_available()),
    )
    notes.print(f"{record['parameters']:,} parameters in {output}, loss {record['loss']:.4f}")
    if as_json:
        print(json.dumps({"folder": str(output), **record}))


@app.command()
def measure(
    folder: Annotated[
        Path | None, typer.Argument(help="A model folder. Default: the included one.")
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many dev tasks.")] = 2_000,
    seed: Annotated[int, typer.Option()] = 0,
) -> None:
    """Measure a pocket policy on the dev split, with 2 to 5 agents, and write its rates.json."""
    from coevolve.cli.show import notes
    from coevolve.pocket import folder as shipped
    from coevolve.pocket.rates import measure as rates

    chosen = folder or shipped()
    found = rates(chosen, count, seed)
    for line in lines_of(found):
        print(line)
    target = chosen / "rates.json"
    try:
        replace_file(target, (json.dumps(found, indent=1) + "\n").encode())
    except OSError as error:
        raise UserError(f"cannot write {target}: {error.strerror}; rates are above") from None
    notes.print(f"wrote {target}")


@app.command()
def info(as_json: AsJson = False) -> None:
    """Show how the included pocket policy was built, and how it was measured."""
    from coevolve import pocket

    folder = pocket.folder()
    facts: dict[str, Any] = {"folder": str(folder)}
    for name in ("build", "rates"):
        path = folder / f"{name}.json"
        try:
            facts[name] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
        except ValueError as error:
            raise UserError(f"{path} is not JSON ({error}); install the package again") from None
    if as_json:
        print(json.dumps(facts))
        return
    print(f"folder  {facts['folder']}")
    for name in ("build", "rates"):
        print(f"\n{name}" + ("" if facts[name] else f": no {name}.json"))
        for line in lines_of(facts[name] or {}):
            print(f"  {line}")


def lines_of(facts: dict[str, Any]) -> list[str]:
    """Nested JSON as lines of dotted names and values."""
    return [
        f"{name}  {value if isinstance(value, str) else json.dumps(value)}"
        for name, value in flat(facts).items()
    ]
