"""`coevolve resume`: go on with a run."""

from pathlib import Path
from typing import Annotated

import typer

from coevolve.cli.run import AsJson, AtOnce, Cpus, Gpus, Ray, finish, side_by_side

Run = Annotated[Path, typer.Argument(help="Folder of a run.")]


def resume(
    folder: Run,
    versions: Annotated[
        int | None,
        typer.Option(
            "--versions",
            "--rounds",
            min=1,
            help="Total number of versions, if more than planned.",
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Training steps of each version that is not trained yet."),
    ] = None,
    retrain: Annotated[
        bool, typer.Option("--retrain", help="First train missing checkpoints again.")
    ] = False,
    at_once: AtOnce = 1,
    ray: Ray = "",
    cpus: Cpus = 2.0,
    gpus: Gpus = 0.0,
    as_json: AsJson = False,
) -> None:
    """Continue a run that was interrupted, or give a run more versions or more steps.

    Examples: coevolve resume runs/rounds

      coevolve resume runs/rounds --versions 6 --steps 48
    """
    from coevolve.cli.live import view_of
    from coevolve.loop.create import More, reopen
    from coevolve.loop.train import retrain as again

    view, work = view_of(as_json), side_by_side(at_once, ray, cpus, gpus)
    run = reopen(folder, view.tell, view.say, work=work, more=More(versions, steps))
    if retrain:
        again(run)
    finish(run, view, as_json)
