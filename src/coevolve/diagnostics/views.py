"""What there is to know about a run, as tables for SQL: rollouts, groups, turns, messages, steps,
versions. docs/evidence.md describes every column.

Invariant: only files of the named splits are ever named to the database, and rows that say they are
of another split are left out even there.
"""

import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from coevolve.core.errors import UserError
from coevolve.core.seeds import digest
from coevolve.core.splits import Split
from coevolve.diagnostics.versions import STEPS, VERSIONS, Row, step_files, steps_of, versions_of
from coevolve.store.cells import SAME
from coevolve.store.layout import VISIBLE, Broken, Part, gone, parts_of, sound, spoiled, sums_of
from coevolve.store.rollouts import SCHEMA

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NAMES = ("rollouts", "groups", "turns", "messages", "steps", "versions")
"""What a statement may read from."""
NAMELESS = {
    "verdict": None,
    "checkpoint": None,
    "engineer": None,
    "seconds": None,
    "drawing_s": None,
}
"""Columns that a diagnostic does not see: what it says of a version must not depend on them."""
KEEP_IN_MEMORY = ("rollouts", "groups")
"""What is worth computing once, where many statements follow."""

DETAILS = {
    "calls": [{"tool": "VARCHAR", "ok": "BOOLEAN"}],
    "files": ["VARCHAR"],
    "tests_run": "INTEGER",
    "tests_changed": "BOOLEAN",
    "first_edit": "INTEGER",
    "history_read": "BOOLEAN",
}
"""Keys of a rollout's details that behaviour diagnostics read; a domain gives those it knows."""

ROLLOUTS = f"""
SELECT id, version, source, split, domain, policy, step,
       CASE WHEN "group" <> '' THEN "group" ELSE folder || task_id END AS "group",
       task_id, sample, bucket, reward, coalesce(shaped, reward) AS shaped, components, valid,
       optimal, failure, stop,
       prompt_tokens, completion_tokens, mean_logprob, min_logprob, entropy, seconds,
       len(said)::INTEGER AS turns,
       list_unique(said)::INTEGER AS distinct_turns,
       len(said[-1])::INTEGER AS answer_length,
       hash(said) AS answer_hash,
       CASE WHEN known.calls IS NOT NULL THEN len(known.calls)::INTEGER END AS calls,
       CASE WHEN known.calls IS NOT NULL
            THEN len(list_filter(known.calls, lambda c: NOT c.ok))::INTEGER END AS failed_calls,
       CASE WHEN known.calls IS NOT NULL
            THEN len(list_filter(known.calls, lambda c: c.tool = 'edit'))::INTEGER END AS edits,
       CASE WHEN known.calls IS NOT NULL
            THEN len(list_filter(known.calls, lambda c: c.tool = 'edit' AND NOT c.ok))::INTEGER
            END AS failed_edits,
       known.files AS files, known.tests_run AS tests_run, known.tests_changed AS tests_changed,
       known.first_edit AS first_edit, known.history_read AS history_read, details
FROM (SELECT *,
             list_transform(list_filter(messages, lambda m: m.role = 'assistant'),
                            lambda m: m.content) AS said,
             from_json(details, '{json.dumps(DETAILS)}') AS known
      FROM stored)
"""
"""One row per rollout, without its text."""

GROUPS = f"""
SELECT version, source, split, domain, "group", any_value(task_id) AS task_id,
       any_value(step) AS step, count(*)::INTEGER AS n, avg(shaped) AS mean,
       stddev_pop(shaped) AS spread, max(shaped) - min(shaped) < {SAME} AS dead,
       count(DISTINCT round(shaped, 6))::INTEGER AS "values",
       list_max(map_values(histogram(round(shaped, 6)))) / count(*) AS largest_share,
       count_if(valid)::INTEGER AS valid,
       count(DISTINCT answer_hash)::INTEGER AS answers
FROM rollouts GROUP BY version, source, split, domain, "group"
"""
"""Rollouts that are compared with each other; attempts at one task, outside training."""

MESSAGES = """
SELECT id, version, source, task_id, sample, position, entry.role AS role,
       length(entry.content)::INTEGER AS length, entry.content AS text
FROM (SELECT id, version, source, task_id, sample, unnest(messages) AS entry,
             generate_subscripts(messages, 1) - 1 AS position
      FROM stored)
"""
"""One row per message, the prompt's too; positions count from 0."""

TURNS = """
SELECT id, version, source, task_id, sample, position, entry.role AS role,
       length(entry.content)::INTEGER AS length, entry.content AS text,
       CASE WHEN entry.role = 'tool' THEN calls[entry.call].tool END AS tool,
       CASE WHEN entry.role = 'tool' THEN calls[entry.call].ok END AS ok
FROM (SELECT id, version, source, task_id, sample, calls, unnest(entries) AS entry,
             generate_subscripts(entries, 1) - 1 AS position
      FROM (SELECT *, from_json(details, '{"calls": [{"tool": "VARCHAR", "ok": "BOOLEAN"}]}').calls
                        AS calls,
                   list_transform(after, lambda m, i: {'role': m.role, 'content': m.content,
                       'call': len(list_filter(after[:i], lambda x: x.role = 'tool'))}) AS entries
            FROM (SELECT *, messages[list_position(
                       list_transform(messages, lambda m: m.role), 'assistant'):] AS after
                  FROM stored)))
"""
"""One row per message after the prompt, which ends before the policy first speaks."""

MACROS = (
    """CREATE OR REPLACE MACRO share_low(k, n) AS CASE WHEN n > 0 THEN greatest(0, (k + 1.9208 -
       1.96 * sqrt(k * (n - k) / n + 0.9604)) / (n + 3.8416)) END""",
    """CREATE OR REPLACE MACRO share_high(k, n) AS CASE WHEN n > 0 THEN least(1, (k + 1.9208 +
       1.96 * sqrt(k * (n - k) / n + 0.9604)) / (n + 3.8416)) END""",
    """CREATE OR REPLACE MACRO mean_low(m, sd, n) AS
       CASE WHEN n > 1 THEN m - 1.96 * sd / sqrt(n) END""",
    """CREATE OR REPLACE MACRO mean_high(m, sd, n) AS
       CASE WHEN n > 1 THEN m + 1.96 * sd / sqrt(n) END""",
)
"""95 % intervals: Wilson's for k of n, and the normal one of a mean with its standard deviation."""


class Evidence(NamedTuple):
    """All that may be read about a run, before any of it is read."""

    folder: Path
    parts: list[Part]
    broken: list[Broken]
    versions: list[Row]
    steps: list[Row]
    condition: str = ""
    """On rows of the files, in SQL of ours: only these rollouts are seen. Empty: all."""
    nameless: bool = False
    """Whether tasks, groups and rollouts have other names than in the files."""

    @property
    def files(self) -> list[Path]:
        return [file for part in self.parts for file in part.files]

    def checked(self) -> "Evidence":
        """The same after reading every file to its end."""
        parts, broken = sound(self.folder, self.parts, sums_of(self.folder), thoroughly=True)
        return self._replace(parts=parts, broken=[*self.broken, *broken])

    def of(self, version: int) -> "Evidence":
        """What a diagnostic sees of a version: its own evidence and its parent's, as versions 1 and
        0. None of it tells which version that is, nor when it was made."""
        parents = {row["version"]: row["parent"] for row in self.versions}
        number = {version: 1}
        if parents.get(version) is not None:
            number[parents[version]] = 0

        def seen(rows: Iterable[Row]) -> list[Row]:
            found = []
            for row in (row for row in rows if row["version"] in number):
                parent = number.get(row.get("parent", -1))
                named = {"version": number[row["version"]], "parent": parent}
                found.append({k: named.get(k, NAMELESS.get(k, v)) for k, v in row.items()})
            return found

        parts = [
            part._replace(version=number[part.version])
            for part in self.parts
            if part.version in number
        ]
        return self._replace(
            parts=parts, versions=seen(self.versions), steps=seen(self.steps), nameless=True
        )

    def stored(self) -> str:
        """The rows of all files that are seen."""
        found = union(self.folder, self.parts)
        if self.condition:
            found = f"FROM ({found}) WHERE {self.condition}"
        if self.nameless:
            salt = digest("names", self.condition).hex()
            other = ", ".join(
                f"CASE WHEN {name} <> '' THEN md5('{salt}' || {name}) ELSE '' END AS {name}"
                for name in ("id", "task_id", '"group"', "folder")
            )
            found = (
                f"SELECT * REPLACE ({other}, '' AS policy, NULL::FLOAT AS seconds) FROM ({found})"
            )
        return found

    def statements(self, in_memory: bool = False) -> list[str]:
        """What makes the views; `in_memory` computes once what many statements will need."""
        views = {
            "stored": self.stored(),
            "messages": MESSAGES,
            "turns": TURNS,
            "rollouts": ROLLOUTS,
            "groups": GROUPS,
        }
        kept = KEEP_IN_MEMORY if in_memory else ()
        return [
            *MACROS,
            *table("versions", VERSIONS, self.versions),
            *table("steps", STEPS, self.steps),
            *(
                f"CREATE OR REPLACE {'TABLE' if name in kept else 'VIEW'} {name} AS {text}"
                for name, text in views.items()
            ),
        ]


def gather(folder: Path, splits: Iterable[Split] = VISIBLE) -> Evidence:
    """Look for the evidence of a run; files that cannot be read are named and left out."""
    folder = folder.resolve()
    sums = sums_of(folder)
    parts, broken = sound(folder, parts_of(folder, splits), sums)
    curves = spoiled(folder, [file for _, file in step_files(folder)], sums)
    broken += [*gone(folder, sums, splits), *(Broken(file, why) for file, why in curves.items())]
    return Evidence(folder, parts, broken, versions_of(folder), steps_of(folder, curves))


def connect(
    evidence: Evidence, in_memory: bool = False, memory: str = "2GB", threads: int = 0
) -> "DuckDBPyConnection":
    """A connection for statements that we wrote; others go through `evidence.locked`."""
    try:
        import duckdb
    except ImportError:
        raise UserError("diagnostics need duckdb: pip install duckdb") from None
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": memory,
        "python_enable_replacements": False,
        "preserve_insertion_order": False,
        "temp_directory": str(Path(tempfile.gettempdir()) / f"coevolve-{os.getpid()}"),
    }
    if threads:
        settings["threads"] = threads
    connection = duckdb.connect(config=settings)
    for statement in evidence.statements(in_memory):
        connection.execute(statement)
    return connection


def union(folder: Path, parts: Sequence[Part]) -> str:
    """All files as one table that knows version and source, so that others are never opened."""
    if not parts:
        return f"SELECT * FROM ({empty()}) WHERE false"
    skip = len(str(folder)) + 2
    return "\nUNION ALL BY NAME\n".join(
        f"""SELECT {part.version}::INTEGER AS version, '{part.source}' AS source,
        {f"parse_dirpath(filename)[{skip}:] || '/'" if part.source == "probe" else "''"}
        AS folder, filename[{skip}:-9] || '/' || file_row_number AS id,
        * EXCLUDE (filename, file_row_number)
        FROM read_parquet([{", ".join(quoted(pattern(file)) for file in part.files)}],
                          filename = true, file_row_number = true)
        WHERE split = '{part.split}'"""
        for part in parts
    )


def empty() -> str:
    """One row of nulls with the right columns."""
    types = {"bool": "BOOLEAN", "double": "DOUBLE", "float": "FLOAT", "int32": "INTEGER"}
    special = {
        "bucket": "MAP(VARCHAR, VARCHAR)",
        "components": "MAP(VARCHAR, DOUBLE)",
        "messages": "STRUCT(role VARCHAR, content VARCHAR)[]",
    }
    columns = {"version": "INTEGER", "source": "VARCHAR", "folder": "VARCHAR", "id": "VARCHAR"}
    for field in SCHEMA:
        columns[field.name] = special.get(field.name) or types.get(str(field.type), "VARCHAR")
    return "SELECT " + ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in columns.items())


def table(name: str, columns: dict[str, str], rows: Sequence[Row]) -> list[str]:
    """A small table written out as SQL."""
    fields = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
    made = [f"CREATE OR REPLACE TABLE {name} ({fields})"]
    for start in range(0, len(rows), 500):
        lines = (
            "(" + ", ".join(literal(row[column]) for column in columns) + ")"
            for row in rows[start : start + 500]
        )
        made.append(f"INSERT INTO {name} VALUES {', '.join(lines)}")
    return made


def literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool | int):
        return str(value)
    # Numbers too: text reads back as nan and inf, which SQL has no word for.
    return quoted(str(value))


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def pattern(file: Path) -> str:
    """A path as a pattern that only matches itself."""
    return "".join(f"[{sign}]" if sign in "[*?" else sign for sign in str(file))
