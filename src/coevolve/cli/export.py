"""`coevolve export`: a run for other programs."""

import csv
import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coevolve.cli.choice import lineage_in
from coevolve.core.errors import UserError

if TYPE_CHECKING:
    from coevolve.store.lineage import Lineage

CARD = """---
configs:
- config_name: default
  data_files:
  - split: train
    path: train/*.parquet
  - split: dev
    path: dev/*.parquet
---
Rollouts of the run `{name}` by coevolve: what every version drew in training and in backtests
before it (train), and on dev tasks (dev), with messages, verdict, reward, failure and tokens.
Gate and test tasks are not here.
"""


class Form(StrEnum):
    csv = "csv"
    json = "json"
    data = "data"
    trackio = "trackio"


def export(
    folder: Annotated[Path, typer.Argument(help="Folder of a run.")],
    output: Annotated[
        Path | None, typer.Argument(help="The new folder to write; not for trackio.")
    ] = None,
    form: Annotated[
        Form,
        typer.Option(
            "--as", help="csv or json: versions and steps. data: rollouts. trackio: curves."
        ),
    ] = Form.csv,
) -> None:
    """Write a run for other programs.

    csv and json give the versions with their changes and results, and every metric of every step.
    data gives the rollouts of train and dev, as a folder that `datasets.load_dataset` reads.
    trackio writes the curves of all versions into a trackio project.

    Examples: coevolve export runs/rounds table

      coevolve export runs/rounds rollouts --as data
    """
    from coevolve.cli.show import out
    from coevolve.engines.stage import steps_of
    from coevolve.store.tables import versions

    lineage = lineage_in(folder)
    numbers = [node.number for node in lineage.nodes]
    if form is Form.trackio:
        count = to_trackio(folder, lineage)
        out.print(f"logged {count:,} steps into the project {lineage.plan.name}; look at them with "
                  f"trackio show --project {lineage.plan.name}", highlight=False)  # fmt: skip
        return
    place = output or Path(f"{folder.name}-{form}")
    if place.exists() and any(place.iterdir() if place.is_dir() else [place]):
        raise UserError(f"{place} is there already; name a new folder")
    place.mkdir(parents=True, exist_ok=True)
    if form is Form.data:
        written = write_rollouts(folder, place, lineage.plan.name)
    else:
        tables = {"versions": versions(lineage), "steps": list(steps_of(folder, numbers))}
        written = [write(place, name, rows, form) for name, rows in tables.items()]
    for path in written:
        out.print(str(path), highlight=False)


def write(place: Path, name: str, rows: list[dict[str, Any]], form: Form) -> Path:
    path = place / f"{name}.{form}"
    if form is Form.json:
        path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        return path
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, columns)
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_rollouts(folder: Path, place: Path, name: str) -> list[Path]:
    """A file for each version and source."""
    from pyarrow import parquet

    from coevolve.store.rollouts import SCHEMA
    from coevolve.store.tables import plain, rollouts

    written, schema = [], plain(SCHEMA.empty_table(), 0).schema
    for source in rollouts(folder):
        path = place / str(source.split) / f"{source.name}.parquet"
        path.parent.mkdir(exist_ok=True)
        with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
            for block in source.blocks:
                writer.write_table(block)
        written.append(path)
    (place / "README.md").write_text(CARD.format(name=name), encoding="utf-8")
    return [*written, place / "README.md"]


def to_trackio(folder: Path, lineage: "Lineage") -> int:
    """Curves of every version as a run of a trackio project."""
    try:
        import trackio
    except ImportError:
        raise UserError("--as trackio needs a package: pip install trackio") from None
    from coevolve.engines.stage import steps_of

    count = 0
    for node in lineage.nodes:
        own = [*steps_of(folder, [node.number])]
        trackio.init(project=lineage.plan.name, name=f"version-{node.number:02d}")
        for line in own:
            step = line.pop("step")
            trackio.log({k: v for k, v in line.items() if k != "version"}, step=step)
        trackio.finish()
        count += len(own)
    return count
