"""Faults: small changes on the syntax tree, made in the text so that all else stays as it was.

Invariant: a fault names the exact text it replaces and where, so that it applies to one version of
a file and to no other.
"""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from threading import Lock

from coevolve.core.rollout import Value
from coevolve.core.seeds import digest

KINDS: dict[str, str] = {
    "comparison": "a comparison is off: < for <=, == for !=, in for not in",
    "none": "a check for None is turned round",
    "operator": "an arithmetic operator is another one",
    "boundary": "a whole number is off by one",
    "condition": "a condition is negated, or `and` and `or` are exchanged",
    "arguments": "the first two arguments of a call are swapped",
    "dropped": "a branch is never taken, or a statement is missing",
    "result": "a function gives back nothing",
    "constant": "a truth value is turned round, or a text is empty",
}
COMPARISONS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
NONES = {ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is")}
OPERATORS = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
PARSING = Lock()
"""CPython 3.11 counts the depth of syntax trees in one place for all threads: two that parse at
once may both fail with a SystemError."""
LOGIC = {ast.And: ("and", "or"), ast.Or: ("or", "and")}
TEXT = re.compile(r"""(?P<mark>['"])(?P<inner>[^'"\\]{0,30})(?P=mark)""")


class Fault(Value):
    """One change of one file."""

    path: str
    line: int
    """Of the beginning of the text, from 1."""
    column: int
    """In bytes, from 0."""
    old: str
    new: str
    kind: str
    function: str
    """The innermost function it is in, with its classes: `Cache.pop`."""
    first: int
    """First line of that function, its decorators included."""

    @property
    def key(self) -> str:
        """The function, as tests are found by it."""
        return f"{self.path}:{self.first}"

    def place(self, package: str) -> int:
        """A well-mixed number, the same for all faults in one function."""
        return int.from_bytes(digest("swe", package, self.path, self.function, size=8), "big") >> 1

    def mark(self) -> str:
        return digest(self.model_dump_json()).hex()

    def apply(self, data: bytes) -> bytes | None:
        """A file with the fault in it; None if it is not the file that the fault is of."""
        lines = data.split(b"\n")
        if self.line > len(lines):
            return None
        at = sum(len(line) + 1 for line in lines[: self.line - 1]) + self.column
        old = self.old.encode()
        if data[at : at + len(old)] != old:
            return None
        return data[:at] + self.new.encode() + data[at + len(old) :]


def parse(source: str | bytes) -> ast.Module:
    """The syntax tree of a module; a SyntaxError or ValueError if it is none."""
    with PARSING:
        return ast.parse(source)


def find_faults(path: str, data: bytes) -> list[Fault]:
    """Everything that can go wrong in the functions of a file."""
    try:
        tree = parse(data.decode("utf-8"))
    except (SyntaxError, ValueError, RecursionError):
        return []
    if b"\r" in data or b"\x0c" in data:
        return []
    return list(Finder(path, data).visit(tree, (), 0))


class Finder:
    """Walks a syntax tree and proposes changes of the text."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path, self.data = path, data
        self.starts = [0]
        for line in data.split(b"\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)

    def visit(self, node: ast.AST, names: tuple[str, ...], first: int) -> Iterator[Fault]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.JoinedStr):
                continue  # before Python 3.12 nothing in there knows its place
            inner, begins = names, first
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = (*names, child.name)
                begins = min(one.lineno for one in (child, *child.decorator_list))
                if isinstance(child, ast.ClassDef):
                    begins = 0  # what stands in a class body runs on import
            elif begins:
                for kind, low, high, new in self.changes(child, node):
                    yield self.fault(kind, low, high, new, ".".join(names), first)
            yield from self.visit(child, inner, begins)

    def fault(self, kind: str, low: int, high: int, new: str, name: str, first: int) -> Fault:
        line = next(n for n in range(len(self.starts)) if self.starts[n + 1] > low) + 1
        return Fault(
            path=self.path,
            line=line,
            column=low - self.starts[line - 1],
            old=self.data[low:high].decode(),
            new=new,
            kind=kind,
            function=name,
            first=first,
        )

    def begin(self, node: ast.expr | ast.stmt) -> int:
        return self.starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr | ast.stmt) -> str:
        return self.data[self.begin(node) : self.end(node)].decode()

    def changes(self, node: ast.AST, parent: ast.AST) -> Iterator[tuple[str, int, int, str]]:
        """(kind, begin, end, new text) of what can go wrong at one node."""
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            op = type(node.ops[0])
            kind, pair = ("none", NONES.get(op)) if op in NONES else ("comparison", COMPARISONS[op])
            yield from self.between(kind, node.left, node.comparators[0], pair)
        elif isinstance(node, ast.BinOp):
            text = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
            if not text:
                yield from self.between(
                    "operator", node.left, node.right, OPERATORS.get(type(node.op))
                )
        elif isinstance(node, ast.AugAssign):
            pair = OPERATORS.get(type(node.op))
            if pair:
                yield from self.between(
                    "operator", node.target, node.value, (f"{pair[0]}=", f"{pair[1]}=")
                )
        elif isinstance(node, ast.BoolOp) and len(node.values) == 2:
            one, two = node.values
            yield from self.between("condition", one, two, LOGIC[type(node.op)])
        elif isinstance(node, ast.Call):
            yield from self.swapped(node)
        elif isinstance(node, ast.Return):
            empty = node.value is None
            if not empty and not (isinstance(node.value, ast.Constant) and not node.value.value):
                yield "result", self.begin(node), self.end(node), "return None"
        elif isinstance(node, ast.Constant):
            yield from self.other_constant(node, parent)
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            low, high = self.begin(node.test), self.end(node.test)
            yield "condition", low, high, f"not ({self.text(node.test)})"
            if isinstance(node, ast.If) and not node.orelse:
                yield "dropped", low, high, "False"
        calls = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        if calls or isinstance(node, ast.AugAssign | ast.Delete | ast.Break | ast.Continue):
            assert isinstance(node, ast.stmt)
            yield "dropped", self.begin(node), self.end(node), "pass"

    def between(
        self, kind: str, left: ast.expr, right: ast.expr, pair: tuple[str, str] | None
    ) -> Iterator[tuple[str, int, int, str]]:
        """Exchange the one operator between two expressions."""
        if pair is None:
            return
        low, high = self.end(left), self.begin(right)
        old, new = pair
        pattern = rf"(?<![\w<>=!*/%&|+-]){re.escape(old)}(?![\w<>=*/])" if high > low else "$^"
        gap = self.data[low:high].decode()
        found = list(re.finditer(pattern, gap))
        if len(found) == 1 and "#" not in gap:
            at = low + len(gap[: found[0].start()].encode())
            yield kind, at, at + len(old), new

    def swapped(self, node: ast.Call) -> Iterator[tuple[str, int, int, str]]:
        if len(node.args) < 2 or any(isinstance(one, ast.Starred) for one in node.args):
            return
        one, two = node.args[:2]
        gap = self.data[self.end(one) : self.begin(two)].decode()
        if self.text(one) != self.text(two) and gap.strip() == ",":
            new = self.text(two) + gap + self.text(one)
            yield "arguments", self.begin(one), self.end(two), new

    def other_constant(
        self, node: ast.Constant, parent: ast.AST
    ) -> Iterator[tuple[str, int, int, str]]:
        low, high, value = self.begin(node), self.end(node), node.value
        if isinstance(value, bool):
            yield "constant", low, high, str(not value)
        elif isinstance(value, int) and self.text(node).isdecimal():
            yield "boundary", low, high, str(value + 1 if value < 1 else value - 1)
        elif isinstance(value, str) and not isinstance(parent, ast.Expr):
            found = TEXT.fullmatch(self.text(node))
            if found:
                quote = found["mark"]
                yield "constant", low, high, f"{quote}{'' if found['inner'] else ' '}{quote}"


def disjoint(faults: list[Fault]) -> bool:
    """Whether faults are all in different functions, none of them inside another."""
    places = sorted((fault.path, fault.function) for fault in faults)
    return all(
        a != b and not (a[0] == b[0] and f"{b[1]}.".startswith(f"{a[1]}."))
        for a, b in pairwise(places)
    )


def apply_all(faults: list[Fault], tree: dict[str, bytes]) -> dict[str, bytes] | None:
    """The files that faults change, changed; None if one of them does not fit.

    Later places first, so that none moves another.
    """
    changed: dict[str, bytes] = {}
    for fault in sorted(faults, key=lambda one: (one.path, -one.line, -one.column)):
        data = changed.get(fault.path, tree.get(fault.path))
        applied = None if data is None else fault.apply(data)
        if applied is None:
            return None
        changed[fault.path] = applied
    return changed
