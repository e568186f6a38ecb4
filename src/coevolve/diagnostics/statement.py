"""Whether a statement that a model wrote may run: one SELECT, of our views, by harmless functions.

DuckDB's own parser reads it; what is judged is the tree that will run, never the text. All that is
not known to be harmless is refused, and so is what gives another answer each time (random, now).
"""

import json
import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LONGEST = 20_000
"""Characters of a statement."""
NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
TABLES = {"BASE_TABLE", "JOIN", "SUBQUERY", "TABLE_FUNCTION", "EXPRESSION_LIST", "EMPTY",
          "EMPTY_FROM"}  # fmt: skip
TABLE_FUNCTIONS = {"unnest", "range", "generate_series", "json_each", "json_tree"}
INNER = {"unnest", "grouping", "grouping_id"}
"""Functions that the parser knows and the catalogue does not list."""
PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
HIDDEN = re.compile(
    r"pg_|current_|has_|inet_|__internal|icu_|json_(de)?serialize_|json_execute|get_block_size|"
    r"getvariable|col_description|obj_description|shobj_description|session_user$|user$|version$|"
    r"in_search_path|txid|sleep|write_log|nextval|currval|setval|setseed|query|index_key|error$|"
    r"format_|map_to_pg_oid|getenv|stats$|vector_type|parse_duckdb_log|age$|ago$|reservoir_|"
    r"to_aggregate_state|finalize$|combine|st_|variant_|remap_struct|create_sort_key|make_type|"
    r"replace_type|cast_to_type|.*_byte_comparable"
)
"""Functions that look at the machine, the clock, the database or the session, draw at random, or
are the database's own business."""
CLOCKS = {
    "current_catalog", "current_database", "current_date", "current_localtime",
    "current_localtimestamp", "current_role", "current_schema", "current_time", "current_timestamp",
    "current_user", "localtime", "localtimestamp", "session_user", "system_user", "user",
}  # fmt: skip
"""What reads like a column, and is a function where no column has its name."""
BY_NAME = {"list_aggr", "list_aggregate", "array_aggr", "array_aggregate", "aggregate"}
"""Functions that take the name of another as a text."""
NAMING = {"hash", "md5", "md5_number", "md5_number_lower", "md5_number_upper", "sha1", "sha256"}
"""Functions by which one can tell any text from all others without writing it down."""
MOST_CONSTANTS, LONGEST_CONSTANT, MOST_DIGITS = 24, 40, 4
"""What a diagnostic may write down: more of it can single out every version by what it drew."""


class Refused(Exception):
    """Why a statement may not run."""


def harmless(connection: "DuckDBPyConnection") -> frozenset[str]:
    """Names of functions that only compute, and always the same."""
    rows = connection.execute(
        "SELECT function_name, bool_and(coalesce(stability, 'CONSISTENT') = 'CONSISTENT'), "
        "list(macro_definition) FILTER (macro_definition IS NOT NULL) "
        "FROM duckdb_functions() WHERE function_type IN ('scalar', 'aggregate', 'macro') "
        "GROUP BY function_name"
    ).fetchall()
    found = {name: texts or [] for name, steady, texts in rows if steady}
    found = {name: texts for name, texts in found.items() if not HIDDEN.match(name)}
    while True:  # a macro is as harmless as what it is made of
        allowed = frozenset(found) | INNER
        bad = {name for name, texts in found.items() if not made_of(connection, texts, allowed)}
        if not bad:
            return allowed
        found = {name: texts for name, texts in found.items() if name not in bad}


def made_of(
    connection: "DuckDBPyConnection", definitions: Collection[str], allowed: Collection[str]
) -> bool:
    """Whether macros use harmless functions alone."""
    for text in definitions:
        (tree,) = connection.execute("SELECT json_serialize_sql(?)", [f"SELECT {text}"]).fetchall()
        try:
            examine(json.loads(tree[0])["statements"], Permitted(frozenset(), allowed, frozenset()))
        except (Refused, KeyError):
            return False
    return True


def taken(connection: "DuckDBPyConnection") -> frozenset[str]:
    """Names that already mean something to the database; a query may not hide behind them."""
    rows = connection.execute(
        "SELECT view_name FROM duckdb_views() UNION SELECT table_name FROM duckdb_tables() UNION "
        "SELECT function_name FROM duckdb_functions() WHERE function_type LIKE 'table%'"
    ).fetchall()
    return frozenset(name.lower() for (name,) in rows)


class Permitted(NamedTuple):
    """What a statement may use."""

    views: frozenset[str]
    functions: Collection[str]
    taken: frozenset[str]


def check(
    connection: "DuckDBPyConnection", sql: str, permitted: Permitted, general: bool = False
) -> None:
    """Raise `Refused` unless the statement may run; a `general` one may single nothing out."""
    import duckdb

    if len(sql) > LONGEST:
        raise Refused(f"a statement has at most {LONGEST:,} characters, this one has {len(sql):,}")
    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        raise Refused(" ".join(str(error).split())) from None
    if len(statements) != 1:
        raise Refused(f"one statement at a time, not {len(statements)}")
    if statements[0].type != duckdb.StatementType.SELECT:
        raise Refused(f"only SELECT may be used, not {statements[0].type.name}")
    if statements[0].named_parameters:
        raise Refused("a statement has no parameters; write the values out")
    found = connection.execute("SELECT json_serialize_sql(?)", [statements[0].query]).fetchone()
    assert found is not None
    try:
        tree = json.loads(found[0])
    except RecursionError:
        raise Refused("it is nested too deeply") from None
    if tree["error"]:
        raise Refused(tree["error_message"])
    if general:
        check_constants(tree["statements"])
        permitted = permitted._replace(functions=frozenset(permitted.functions) - NAMING)
    examine(tree["statements"], permitted)


def examine(tree: Any, permitted: Permitted) -> None:
    """Walk over a parsed statement."""
    nodes = list(objects(tree))
    named = {entry["key"].lower() for node in nodes for entry in entries(node)}
    for name in named:
        if not PLAIN.fullmatch(name) or name in permitted.taken - permitted.views:
            raise Refused(f"a query may not be called {name!r:.80}; take another name")
    for node in nodes:
        kind = node.get("type")
        if isinstance(kind, str) and kind.endswith("_NODE") and kind not in NODES:
            raise Refused(f"only SELECT may be used, not {kind.split('_')[0]}")
        if "sample" in node and "alias" in node and kind not in TABLES:
            described = kind == "SHOW_REF" and node.get("show_type") in ("DESCRIBE", "SUMMARY")
            if not (described and node.get("query")):
                raise Refused(f"{str(kind).lower().replace('_', ' ')} may not be used")
        if node.get("sample"):
            raise Refused("a sample is another one each time; use LIMIT or a hash of the id")
        if kind == "BASE_TABLE":
            check_table(node, permitted.views, named)
        elif kind == "TABLE_FUNCTION":
            check_function(node["function"], TABLE_FUNCTIONS, "table function")
        elif node.get("class") == "FUNCTION" or kind == "WINDOW_AGGREGATE":
            check_function(node, permitted.functions, "function")
        elif kind == "COLUMN_REF" and node["column_names"][-1].lower() in CLOCKS:
            raise Refused(f"{node['column_names'][-1]!r:.80} is another one each time")


def check_table(node: dict[str, Any], views: frozenset[str], named: set[str]) -> None:
    path = [*map(str.lower, node["qualified_name"]["path"])]
    if path[0] not in views | named or len(path) != 1 or node.get("at_clause"):
        known = ", ".join(sorted(views))
        raise Refused(f"there is no table {'.'.join(path)!r:.80}; read from {known}")


def check_function(node: dict[str, Any], allowed: Collection[str], kind: str) -> None:
    path = [*map(str.lower, node["qualified_name"]["path"])]
    if path[-1] not in allowed or len(path) != 1:
        raise Refused(f"the {kind} {'.'.join(path)!r:.80} may not be used")
    if path[-1] in BY_NAME:
        given = [one["expression"].get("literal", {}).get("text") for one in node["arguments"][1:2]]
        if not given or str(given[0]).lower() not in allowed:
            raise Refused(f"'{path[-1]}' needs the name of a function that may be used")


def check_constants(tree: Any) -> None:
    """Thresholds and words are few and short; what singles versions or tasks out is not."""
    written = [node["literal"] for node in objects(tree) if "literal" in node]
    if len(written) > MOST_CONSTANTS:
        raise Refused(f"a diagnostic has at most {MOST_CONSTANTS} constants, not {len(written)}")
    for text in (str(one.get("text", "")) for one in written):
        if len(text) > LONGEST_CONSTANT:
            raise Refused(
                f"a text of a diagnostic has at most {LONGEST_CONSTANT} characters: {text}"
            )
        digits = re.sub(r"[eE].*|[^0-9]", "", text).strip("0")
        if re.fullmatch(r"[-+0-9._eE]+", text) and len(digits) > MOST_DIGITS:
            raise Refused(
                f"a number of a diagnostic has at most {MOST_DIGITS} digits: {text!r:.80}"
            )


def objects(tree: Any) -> Iterator[dict[str, Any]]:
    """All objects of a JSON value, without recursion."""
    stack = [tree]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            yield value
            stack += value.values()
        elif isinstance(value, list):
            stack += value


def entries(node: dict[str, Any]) -> list[dict[str, Any]]:
    """The common table expressions that a query names."""
    found: list[dict[str, Any]] = node.get("cte_map", {}).get("map", [])
    return found
