"""`coevolve report`: a run as one HTML page to open, keep or pass on."""

import json
from pathlib import Path
from typing import Annotated

import typer


def report(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write. Default: RUN/report.html.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Also print the numbers as one JSON object.")
    ] = False,
) -> None:
    """Write an HTML report: what was learned, every decision, boards before and after.

    The report is one file that loads nothing else. If a run is unfinished or damaged, it shows what
    is there and says what is missing.
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
