"""`coevolve report`: a run as one HTML page to open, keep or pass on."""

import json
from pathlib import Path
from typing import Annotated

import typer


def report(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File; RUN/report.html if not given.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the numbers as one JSON object, too.")
    ] = False,
) -> None:
    """Write a report: what was learned, every decision with its numbers, boards before and after.

    One file with everything in it, which loads nothing. Of a run that is unfinished or damaged it
    shows what is there and says what is not.
    """
    from coevolve.cli.show import notes
    from coevolve.dashboard.report import write_report

    path = output or folder / "report.html"
    facts = write_report(folder, path)
    if as_json:
        print(json.dumps({"report": str(path), "bytes": path.stat().st_size, **facts.as_json()}))
    else:
        print(path)
    for problem in facts.problems:
        notes.print(f"note: {problem}", highlight=False, markup=False)
    if show:
        typer.launch(path.resolve().as_uri())
