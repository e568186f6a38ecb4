"""`coevolve list`: every run of a folder in a line."""

import json
from pathlib import Path
from typing import Annotated

import typer

from coevolve.cli.run import AsJson


def list(
    folder: Annotated[Path, typer.Argument(help="Folder to search, with its subfolders.")] = Path(
        "runs"
    ),
    as_json: AsJson = False,
) -> None:
    """List all runs: state, versions kept, and the gain on the gate over the untrained policy.

    Runs that need somebody come first, then the newest.
    """
    from rich.table import Table
    from rich.text import Text

    from coevolve.cli.show import notes, out, visible
    from coevolve.dashboard.facts import plain
    from coevolve.dashboard.numbers import percent
    from coevolve.dashboard.web.folders import Folders
    from coevolve.dashboard.web.pages.runs import in_order
    from coevolve.dashboard.web.summary import summary_of

    found = in_order(map(summary_of, Folders(folder).runs().values()))
    if as_json:
        print(json.dumps(plain(found)))
        return
    if not found:
        notes.print(f"there is no run in {folder}; `coevolve run` makes one", highlight=False)
        return
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0))
    for name in ("run", "state", "kept", "valid, gate", "change", "last event"):
        table.add_column(name, no_wrap=True)
    for one in found:
        standing = one.standing
        rates = [percent(rate.value) if rate else "-" for rate in (one.base, one.final)]
        change = standing.change.told(standing.metric) if standing.change else ""
        table.add_row(
            Text(visible(one.name)),
            one.state,
            f"{one.kept} of {one.judged}",
            " → ".join(rates).replace(" %", "", 1),
            Text(change or one.problem or standing.words),
            one.last[5:16].replace("T", " "),
        )
    out.print(table)
