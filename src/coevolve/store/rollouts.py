"""Rollouts as Parquet files. A file appears only when it is complete; none is ever changed.

SCHEMA is the documented format; VERSION goes into every file and rises with any change of it.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet
from pydantic_core import PydanticSerializationError, to_json

from coevolve.core.files import settle, storable
from coevolve.core.rollout import Rollout

VERSION = "2"
KNOWN = ("2",)
"""Versions of the file format that can be read."""

SCHEMA = pyarrow.schema(
    [
        ("task_id", pyarrow.string()),
        ("domain", pyarrow.string()),
        ("split", pyarrow.string()),
        ("policy", pyarrow.string()),
        ("step", pyarrow.int32()),  # step it was drawn for, from 0; -1 outside training
        ("group", pyarrow.string()),  # rollouts that are compared with each other
        ("sample", pyarrow.int32()),  # which of the group, from 0
        ("bucket", pyarrow.map_(pyarrow.string(), pyarrow.string())),
        ("messages", pyarrow.list_(pyarrow.struct([("role", pyarrow.string()),
                                                   ("content", pyarrow.string())]))),
        ("reward", pyarrow.float64()),
        ("shaped", pyarrow.float64()),  # what training made of it; null outside training
        ("components", pyarrow.map_(pyarrow.string(), pyarrow.float64())),
        ("valid", pyarrow.bool_()),
        ("optimal", pyarrow.bool_()),
        ("failure", pyarrow.string()),  # null for valid answers
        ("details", pyarrow.string()),  # JSON: where and how it failed
        ("stop", pyarrow.string()),
        ("prompt_tokens", pyarrow.int32()),
        ("completion_tokens", pyarrow.int32()),
        ("mean_logprob", pyarrow.float32()),  # of the drawn tokens, in nats
        ("min_logprob", pyarrow.float32()),
        ("entropy", pyarrow.float32()),  # mean over the drawn tokens, in nats
        ("seconds", pyarrow.float32()),  # wall time of drawing, shared out evenly over a batch
    ],
    metadata={"coevolve_rollouts": VERSION},
)  # fmt: skip


JUDGED = ("reward", "valid", "optimal", "failure")
"""Columns that are a field of the outcome."""
NESTED = ("bucket", "messages", "components", "details")
PLAIN = [name for name in SCHEMA.names if name not in (*JUDGED, *NESTED)]
"""Columns that are a field of the rollout."""


def columns(rollouts: Sequence[Rollout]) -> dict[str, list[Any]]:
    """Rollouts in the columns of SCHEMA; row by row would take twice the time."""
    rows = [vars(rollout) for rollout in rollouts]
    outcomes = [rollout.outcome for rollout in rollouts]
    judged = [vars(outcome) for outcome in outcomes]
    buckets = {id(rollout.bucket): rollout.bucket for rollout in rollouts}
    labels = {
        one: [(k, str(label)) for k, label in bucket.items()] for one, bucket in buckets.items()
    }
    return {
        **{name: [row[name] for row in rows] for name in PLAIN},
        **{name: [row[name] for row in judged] for name in JUDGED},
        "bucket": [labels[id(rollout.bucket)] for rollout in rollouts],
        "messages": [
            [(turn.role, turn.content) for turn in rollout.messages] for rollout in rollouts
        ],
        "components": [list(outcome.components.items()) for outcome in outcomes],
        "details": [to_json(outcome.details) for outcome in outcomes],
    }


def kind(value: object) -> str:
    return type(value).__name__


def mended(rollout: Rollout) -> Rollout:
    """A rollout without what no file can hold: half characters, and details that are no JSON."""
    outcome = rollout.outcome
    try:
        text = json.dumps(outcome.details, ensure_ascii=False, skipkeys=True, default=kind)
        details = json.loads(storable(text))
    except (ValueError, RecursionError):
        details = {"reason": "(the details cannot be written)"}
    turns = tuple(
        turn.model_copy(update={"content": storable(turn.content)}) for turn in rollout.messages
    )
    outcome = outcome.model_copy(update={"details": details})
    return rollout.model_copy(update={"outcome": outcome, "messages": turns})


def write(rollouts: Sequence[Rollout], path: Path) -> None:
    """Write a file of rollouts, whole or not at all."""
    try:
        table = pyarrow.Table.from_pydict(columns(rollouts), schema=SCHEMA)
    except (UnicodeEncodeError, PydanticSerializationError):
        table = pyarrow.Table.from_pydict(columns([mended(one) for one in rollouts]), schema=SCHEMA)
    with writing(path) as file:
        file.write_table(table)


@contextmanager
def writing(path: Path) -> Iterator[parquet.ParquetWriter]:
    """A file of rollouts that appears only when it is complete; an error leaves none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    options = {"compression": "zstd", "write_page_checksum": True}
    try:
        with parquet.ParquetWriter(partial, SCHEMA, **options) as file:
            yield file
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(partial, path)
        settle(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def read_file(file: Path) -> pyarrow.Table:
    """The rollouts of a file, if its pages are what was written."""
    return parquet.read_table(file, schema=SCHEMA, page_checksum_verification=True)


def blocks(file: Path, columns: Sequence[str] | None = None) -> Iterator[pyarrow.Table]:
    """The same, or some columns of it, a block of rows after another."""
    with parquet.ParquetFile(file, page_checksum_verification=True) as opened:
        for block in range(opened.num_row_groups):
            yield opened.read_row_group(block, columns)


def read_row(file: Path, row: int) -> dict[str, Any]:
    """One rollout of a file, by its number from 0."""
    with parquet.ParquetFile(file, page_checksum_verification=True) as opened:
        for block in range(opened.num_row_groups):
            rows = opened.metadata.row_group(block).num_rows
            if row < rows:
                found: dict[str, Any] = opened.read_row_group(block).slice(row, 1).to_pylist()[0]
                return found
            row -= rows
    raise ValueError(f"{file.name} has fewer rows")


def problem(file: Path, thoroughly: bool = False) -> str:
    """What is wrong with a file, or nothing."""
    if not file.is_file():
        return "is not a regular file"
    try:
        with parquet.ParquetFile(file) as opened:
            schema = opened.schema_arrow
            mark = (schema.metadata or {}).get(b"coevolve_rollouts", b"").decode()
            if mark not in KNOWN:
                return f"its format is {mark or 'not that of rollouts'}, known: {', '.join(KNOWN)}"
            if not schema.equals(SCHEMA):
                return "its columns are not those of rollouts"
            if thoroughly:
                for _ in opened.iter_batches():
                    pass
    except (OSError, pyarrow.ArrowException) as error:
        return " ".join(str(error).split())[:200]
    return ""
