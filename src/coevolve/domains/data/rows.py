"""Rows of a data set, from wherever it lies: JSONL, JSON, CSV, Parquet, a folder of these, the hub.

Invariant: errors name the file, and where there are lines, the line. What is wrong with a single
line stands in its place, for those who leave such lines out.
"""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coevolve.core.errors import UserError
from coevolve.domains.files import each_line
from coevolve.domains.hub import PREFIX, read_rows

Row = dict[str, Any]
KINDS = (".jsonl", ".jsonl.gz", ".json", ".csv", ".parquet")
MARKS = ",;\t|"
"""What may stand between the columns of a CSV file: that which its first line has most of."""
LONGEST = 1_000_000
"""Characters of a field of a CSV file."""


def rows_in(place: str) -> list[tuple[str, Row | UserError]]:
    """All rows, each with where it stands, such as `data/train.jsonl, line 3`."""
    if place.startswith(PREFIX):
        return [(f"{place}, row {n}", row) for n, row in enumerate(read_rows(place), 1)]
    path = Path(place)
    if not path.is_dir():
        return list(of_file(path))
    files = sorted(one for one in path.rglob("*") if one.is_file() and kind_of(one))
    if not files:
        raise UserError(f"{path} has no data in it: files that end in {', '.join(KINDS)}")
    return [one for file in files for one in of_file(file)]


def kind_of(path: Path) -> str:
    return next((kind for kind in KINDS if path.name.endswith(kind)), "")


def of_file(path: Path) -> Iterator[tuple[str, Row | UserError]]:
    kind = kind_of(path)
    if not kind:
        raise UserError(f"{path}: give a file that ends in {', '.join(KINDS)}, or a folder of them")
    try:
        if kind in (".jsonl", ".jsonl.gz"):
            yield from ((f"{path}, line {n}", row) for n, row in each_line(path))
        elif kind == ".json":
            yield from ((f"{path}, row {n}", row) for n, row in enumerate(of_json(path), 1))
        elif kind == ".csv":
            csv.field_size_limit(LONGEST)
            with path.open(encoding="utf-8-sig", newline="") as lines:
                mark = max(MARKS, key=lines.readline().count)
                lines.seek(0)
                reader = csv.DictReader(lines, strict=True, delimiter=mark)
                for row in reader:
                    where = f"{path}, line {reader.line_num}"
                    if None in row:
                        yield (
                            where,
                            UserError(
                                f"{where}: more values than the {len(row) - 1} names in the first "
                                f"line: put texts that hold '{mark}' in quotes"
                            ),
                        )
                    elif any(row.values()):  # spreadsheets leave rows of commas at their end
                        yield where, dict(row)
        else:
            yield from ((f"{path}, row {n}", row) for n, row in enumerate(of_parquet(path), 1))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"cannot read {path}: {error}") from None


def of_json(path: Path) -> list[Row]:
    """A list of objects."""
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON ({error})") from None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise UserError(f"{path}: not a list of JSON objects; one object a line goes into .jsonl")
    return found


def of_parquet(path: Path) -> list[Row]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise UserError(f"{path} needs pyarrow: pip install 'coevolve[data]'") from None
    try:
        found: list[Row] = parquet.read_table(path).to_pylist()
    except ArrowException as error:
        raise UserError(f"cannot read {path}: {str(error).splitlines()[0]:.200}") from None
    return found
