"""`coevolve export`: a run for other programs."""

import csv
import json
from collections.abc import Iterator
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
Rollouts of the run `{name}` by coevolve: what every version drew in training (train) and on dev
tasks (dev), with messages, verdict, reward, failure and tokens. Gate and test tasks are not here.
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

    lineage = lineage_in(folder)
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
        written = rollouts(folder, place, lineage.plan.name)
    else:
        every = [line for node in lineage.nodes for line in steps(folder, node.number)]
        tables = {"versions": versions(lineage), "steps": every}
        written = [write(place, name, rows, form) for name, rows in tables.items()]
    for path in written:
        out.print(str(path), highlight=False)


def versions(lineage: "Lineage") -> list[dict[str, Any]]:
    """What each version is, and what became of it."""
    found = []
    for node in lineage.nodes:
        version, gate = node.version, node.gate
        patch = version.patch
        row = {
            "version": version.number, "parent": version.parent, "generation": version.generation,
            "author": version.author, "control": version.control,
            "factor": patch.factor if patch else "",
            "value": json.dumps(patch.value) if patch else "",
            "verdict": version.verdict or "open", "words": gate.words if gate else "",
            "rollouts": node.spent.rollouts, "tokens": node.spent.tokens,
            "seconds": round(node.spent.seconds, 1),
        }  # fmt: skip
        if gate:
            row |= {f"gate_{metric}": rate for metric, rate in gate.scores.rates.items()}
            row |= {"n": gate.scores.n, "change": gate.change.mean, "low": gate.change.low,
                    "high": gate.change.high}  # fmt: skip
        found.append(row)
    return found


def steps(folder: Path, number: int) -> Iterator[dict[str, Any]]:
    """Every metric of every step of a version."""
    from coevolve.engines.stage import read_steps
    from coevolve.store.paths import Paths

    for line in read_steps(Paths(folder.resolve()).version(number) / "stage/steps.jsonl"):
        yield {"version": number, **line}


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


def rollouts(folder: Path, place: Path, name: str) -> list[Path]:
    """Rollouts of the visible splits, a file for each version and source."""
    from pyarrow import parquet

    from coevolve.store.layout import parts_of
    from coevolve.store.rollouts import SCHEMA, blocks

    written = []
    for part in parts_of(folder.resolve()):
        path = place / str(part.split) / f"version-{part.version:02d}-{part.source}.parquet"
        path.parent.mkdir(exist_ok=True)
        schema = exported(SCHEMA.empty_table(), part.version).schema
        with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
            for block in (block for file in part.files for block in blocks(file)):
                writer.write_table(exported(block, part.version))
        written.append(path)
    (place / "README.md").write_text(CARD.format(name=name), encoding="utf-8")
    return [*written, place / "README.md"]


def exported(table: Any, version: int) -> Any:
    """Rollouts with their version, and with maps as JSON text: data sets know no maps."""
    import pyarrow

    for place, field in enumerate(table.schema):
        if pyarrow.types.is_map(field.type):
            texts = [json.dumps(dict(value)) for value in table[field.name].to_pylist()]
            table = table.set_column(place, field.name, pyarrow.array(texts, pyarrow.string()))
    return table.append_column("version", pyarrow.array([version] * len(table), pyarrow.int32()))


def to_trackio(folder: Path, lineage: "Lineage") -> int:
    """Curves of every version as a run of a trackio project."""
    try:
        import trackio
    except ImportError:
        raise UserError("--as trackio needs a package: pip install trackio") from None
    count = 0
    for node in lineage.nodes:
        own = [*steps(folder, node.number)]
        trackio.init(project=lineage.plan.name, name=f"version-{node.number:02d}")
        for line in own:
            step = line.pop("step")
            trackio.log({k: v for k, v in line.items() if k != "version"}, step=step)
        trackio.finish()
        count += len(own)
    return count
