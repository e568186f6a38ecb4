"""The process for statements that nobody here wrote: `python -m coevolve.diagnostics.confinement`.

It reads one line of JSON that makes the views, then a line per statement, and answers a line to
each. Invariant: before the first statement arrives it can write no file, open none but the listed
ones, load nothing, and change no setting; and it never holds more memory than it was given.
"""

import json
import os
import resource
import sys
from typing import Any

import duckdb

from coevolve.diagnostics.statement import Permitted, Refused, check, harmless, taken

SPARE = 512 * 1024 * 1024
"""Bytes beside the database's own: Python, threads, and what the database does not count."""


def main() -> None:
    orders = json.loads(sys.stdin.readline())
    try:
        connection, permitted = prepare(orders)
    except (duckdb.Error, MemoryError) as error:
        reply({"error": f"the views cannot be made: {' '.join(str(error).split())}"})
        return
    reply({"ready": True})
    for line in sys.stdin:
        reply(answer(connection, json.loads(line), permitted))


def prepare(orders: dict[str, Any]) -> tuple["duckdb.DuckDBPyConnection", Permitted]:
    """A connection with all views, locked."""
    confine(orders["memory"])
    connection = duckdb.connect(
        config={
            "memory_limit": f"{orders['memory'] // 1024}KiB",
            "threads": orders["threads"],
            "temp_directory": "",
            "python_enable_replacements": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
        }
    )
    connection.execute("SET TimeZone = 'UTC'")
    for statement in orders["statements"]:
        connection.execute(statement)
    views = frozenset(orders["views"])
    permitted = Permitted(views, harmless(connection), taken(connection))
    lock(connection, orders["paths"])
    return connection, permitted


def confine(memory: int) -> None:
    """No more memory, no file of any length, no core dump, whoever asks for it."""
    for kind, limit in (
        (resource.RLIMIT_DATA, memory + SPARE),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (limit, limit))


def lock(connection: "duckdb.DuckDBPyConnection", paths: list[str]) -> None:
    listed = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
    connection.execute(f"SET allowed_paths = [{listed}]")
    connection.execute("SET allowed_directories = []")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def answer(
    connection: "duckdb.DuckDBPyConnection", order: dict[str, Any], permitted: Permitted
) -> dict[str, Any]:
    """What comes of a statement: columns and rows, or why there are none. `spoiled`: nothing that
    is asked here later can be relied on."""
    try:
        for statement in order["statements"]:
            connection.execute(statement)
    except (duckdb.Error, MemoryError) as error:
        return {"error": f"the views cannot be made: {error}", "spoiled": True}
    try:
        check(connection, order["sql"], permitted, order["general"])
        connection.execute("BEGIN TRANSACTION READ ONLY")
        try:
            return rows_of(connection.execute(order["sql"]), order["rows"], order["bytes"])
        finally:
            connection.execute("ROLLBACK")
    except Refused as refusal:
        return {"error": f"refused: {refusal}", "refused": True}
    except (duckdb.Error, MemoryError, RecursionError, ValueError) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        return {"error": text, "spoiled": spoiled(connection, error)}


def spoiled(connection: "duckdb.DuckDBPyConnection", error: Exception) -> bool:
    """Whether an error is of another kind than a statement that cannot be understood or computed,
    or the connection does not answer any more."""
    if not isinstance(error, duckdb.ProgrammingError | duckdb.DataError):
        return True
    try:
        return connection.execute("SELECT 1 FROM versions LIMIT 0").fetchall() != []
    except duckdb.Error:
        return True


def rows_of(result: "duckdb.DuckDBPyConnection", most: int, room: int) -> dict[str, Any]:
    """Rows until there are enough of them, or there is no room left."""
    columns = [column[0] for column in result.description or ()]
    rows: list[str] = []
    while (row := result.fetchone()) is not None:
        text = json.dumps(row, default=str, skipkeys=True)
        room -= len(text) + 1
        if room < 0 and not rows:
            return {"error": "one row is larger than an answer may be; select less of it"}
        if room < 0 or len(rows) == most:
            return {"columns": columns, "lines": rows, "cut": True}
        rows.append(text)
    return {"columns": columns, "lines": rows, "cut": False}


def reply(value: dict[str, Any]) -> None:
    if (lines := value.pop("lines", None)) is not None:
        head = json.dumps(value)[:-1]
        sys.stdout.write(f'{head}, "rows": [{",".join(lines)}]}}\n')
    else:
        sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    os.environ.clear()
    main()
