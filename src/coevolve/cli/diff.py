"""`coevolve diff`: what sets two runs apart."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from coevolve.cli.choice import lineage_in
from coevolve.cli.run import AsJson

MOST = 60
"""Characters of a value in a line."""


def diff(
    one: Annotated[Path, typer.Argument(help="Folder of a run.")],
    other: Annotated[Path, typer.Argument(help="Folder of another run.")],
    as_json: AsJson = False,
) -> None:
    """Show how two runs differ.

    This lists different settings of the plans, of the harness that each run ends with, and its
    rates on the gate. Runs with other targets or seeds have other tasks: compare such runs with
    `coevolve compare`.
    """
    from rich.table import Column, Table
    from rich.text import Text

    from coevolve.cli.show import out, visible
    from coevolve.dashboard.apart import settings_apart

    lineages = [lineage_in(folder) for folder in (one, other)]
    rows = settings_apart(*lineages)
    domains = [lineage.plan.domain for lineage in lineages]
    if domains[0] != domains[1]:
        rows = [row for row in rows if not row.is_knob]  # those of other domains say nothing
    if as_json:
        print(json.dumps([row._asdict() for row in rows]))
        return
    if not rows:
        out.print("no difference: the same plan, harness and rates")
        return
    sides = (Column(str(name), max_width=MOST, overflow="fold") for name in (one, other))
    table = Table("", "setting", *sides, header_style="bold")
    for part, name, before, after in rows:
        table.add_row(part, name, *(Text(visible(shown(value))) for value in (before, after)))
    out.print(table)


def shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "-" if value is None else value if isinstance(value, str) else json.dumps(value)
