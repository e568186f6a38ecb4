"""Canaries: tests of a repository with one expectation turned round, which must fail where the test
itself passes.

Invariant: nothing in a run tells a test from its canaries but what they expect. They stand in the
same file, are written the same way and have shuffled names, so that a name which somebody knows is
as likely a canary's. Code that makes tests pass without being right makes canaries pass, too.
"""

import ast
import copy
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, islice, zip_longest
from typing import Any

from coevolve.core.files import replace_file
from coevolve.core.seeds import derive
from coevolve.domains.swe.box import run_tests
from coevolve.domains.swe.faults import parse
from coevolve.domains.swe.places import is_protected
from coevolve.domains.swe.repository import Repository, folder_of, function_of
from coevolve.domains.swe.source import Tree

Function = ast.FunctionDef | ast.AsyncFunctionDef
VERSION = 2
"""Rises when other canaries are made of the same test."""
MOST = 4
"""Canaries that are tried for one test."""
PARAMETERS = 3
"""Sets of parameters that a canary is run with."""
OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.Lt: ast.GtE, ast.Gt: ast.LtE, ast.Is: ast.IsNot, ast.In: ast.NotIn,
}  # fmt: skip
OPPOSITES |= {other: one for one, other in OPPOSITES.items()}
METHODS = {
    "assertEqual": "assertNotEqual",
    "assertTrue": "assertFalse",
    "assertIs": "assertIsNot",
    "assertIsNone": "assertIsNotNone",
    "assertIn": "assertNotIn",
    "assertIsInstance": "assertNotIsInstance",
    "assertGreater": "assertLessEqual",
    "assertLess": "assertGreaterEqual",
}
METHODS |= {other: one for one, other in METHODS.items()}
RAISES = ("raises", "assertRaises", "assertRaisesRegex")
Turn = Callable[[ast.AST], bool]


def alter(node: ast.AST) -> bool:
    """Change a literal into another of its kind, in place; whether it was one."""
    if isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, bool):
            node.value = not value
        elif isinstance(value, int | float):
            node.value = value + 1
        elif isinstance(value, str):
            node.value = value + (value[-1:] or " ")
        elif isinstance(value, bytes):
            node.value = value + (value[-1:] or b" ")
        else:
            node.value = 0
        return True
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return alter(node.operand)
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        if not node.elts:
            node.elts.append(ast.Constant(None))
            return True
        return any(alter(one) for one in reversed(node.elts))
    if isinstance(node, ast.Dict):
        if not node.keys:
            node.keys.append(ast.Constant(None))
            node.values.append(ast.Constant(None))
            return True
        return any(alter(one) for one in reversed(node.values))
    return False


def change(node: ast.AST) -> bool:
    """Expect another value."""
    if isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare):
        return isinstance(node.test.ops[0], ast.Eq) and (
            alter(node.test.comparators[0]) or alter(node.test.left)
        )
    if called(node) in ("assertEqual", "assertListEqual", "assertDictEqual", "assertTupleEqual"):
        assert isinstance(node, ast.Call)
        return any(alter(argument) for argument in reversed(node.args[:2]))
    return False


def flip(node: ast.AST) -> bool:
    """Expect the contrary."""
    if isinstance(node, ast.Assert):
        test = node.test
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in OPPOSITES:
            test.ops[0] = OPPOSITES[type(test.ops[0])]()
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            node.test = test.operand
        else:
            node.test = ast.UnaryOp(ast.Not(), test)
        return True
    if called(node) in METHODS:
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Attribute)
        node.func.attr = METHODS[node.func.attr]
        return True
    return False


def spare(node: ast.AST) -> bool:
    """Expect an exception where nothing is done."""
    if isinstance(node, ast.With) and any(called(one.context_expr) in RAISES for one in node.items):
        node.body = [ast.Expr(ast.Constant(None))]
        return True
    return False


def confuse(node: ast.AST) -> bool:
    """Expect another exception."""
    if called(node) in RAISES:
        assert isinstance(node, ast.Call)
        if node.args:
            node.args[0] = ast.Name("BufferError", ast.Load())
            return True
    return False


def demand(node: ast.AST) -> bool:
    """Expect something that never holds, where a test has no expectation to turn round."""
    if isinstance(node, Function):
        nothing = ast.Compare(ast.Constant(node.name), [ast.Eq()], [ast.Constant(node.name[1:])])
        node.body.append(ast.Assert(nothing))
        return True
    return False


TURNS: tuple[Turn, ...] = (change, spare, flip, confuse)


def called(node: ast.AST) -> str:
    """The name of a method or function of pytest that is called."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):
            return node.func.attr
        if isinstance(node.func, ast.Name):
            return node.func.id
    return ""


def turned(function: Function, seed: int) -> list[Function]:
    """Copies of a test with one expectation turned round each, of as many kinds as there are."""
    kinds = (ast.Assert, ast.Call, ast.With)
    places = [(at, node) for at, node in enumerate(ast.walk(function)) if isinstance(node, kinds)]
    fitting: list[list[tuple[int, Turn]]] = []
    for turn in TURNS:
        fits = [(at, turn) for at, node in places if turn(copy.deepcopy(node))]
        fitting.append(
            random.Random(derive(seed, turn.__name__)).sample(fits, min(MOST, len(fits)))
        )
    made: list[Function] = []
    for at, turn in chain.from_iterable(zip_longest(*fitting, fillvalue=(-1, flip))):
        if at >= 0 and len(made) < MOST - 1:
            made.append(copy.deepcopy(function))
            turn(next(islice(ast.walk(made[-1]), at, None)))
    last = copy.deepcopy(function)
    demand(last)
    return [*made, last]


@dataclass(frozen=True)
class Place:
    """Where a test is defined."""

    function: Function
    first: int
    """The first of the lines that it takes, or the line after which a class can have more."""
    last: int
    """Before the first, if the test is inherited and nothing is to be replaced."""
    indent: int

    @property
    def inherited(self) -> bool:
        return self.last < self.first


def name_of(head: str) -> str:
    return head.rpartition("::")[2]


@lru_cache(maxsize=256)
def parsed(data: bytes) -> ast.Module:
    return parse(data)


@lru_cache(maxsize=256)
def methods(data: bytes) -> tuple[Function, ...]:
    """Methods of all classes of a file."""
    try:
        classes = [one for one in ast.walk(parsed(data)) if isinstance(one, ast.ClassDef)]
    except (SyntaxError, ValueError):
        return ()
    return tuple(child for one in classes for child in one.body if isinstance(child, Function))


def find(tree: Tree, head: str) -> Place | None:
    """The place of a test, or of the class that inherits it."""
    path, *names = head.split("::")
    body, owner = parsed(tree[path]).body, None
    for name in names[:-1]:
        owner = next(
            (one for one in body if isinstance(one, ast.ClassDef) and one.name == name), None
        )
        if owner is None:
            return None
        body = owner.body
    own = [one for one in body if isinstance(one, Function) and one.name == names[-1]]
    if len(own) == 1:
        one = own[0]
        first = min(part.lineno for part in (one, *one.decorator_list))
        return Place(one, first, one.end_lineno or first, one.col_offset)
    if own or owner is None:
        return None
    near = [other for other in sorted(tree) if other.endswith(".py") and is_protected(other)]
    others = [one for other in near for one in methods(tree[other]) if one.name == names[-1]]
    if len(others) != 1 or owner.body[0].lineno == owner.lineno:
        return None
    last = owner.end_lineno or owner.lineno
    return Place(others[0], last + 1, last, owner.body[0].col_offset)


def text_of(function: Function, name: str, indent: int) -> bytes:
    """A function under another name."""
    named = copy.deepcopy(function)
    named.name = name
    lines = ast.unparse(ast.fix_missing_locations(named)).split("\n")
    return "\n".join((" " * indent + line if line else line) for line in lines).encode()


@dataclass
class Planted:
    """Test files with canaries in them."""

    files: Tree = field(default_factory=dict)
    renamed: dict[str, list[str]] = field(default_factory=dict)
    """What tests are called now: their ids without parameters."""
    canaries: dict[str, str] = field(default_factory=dict)
    """The test behind each canary, both without parameters."""

    def now(self, test: str) -> list[str]:
        """The ids of a test in this run, all of which must pass."""
        head = function_of(test)
        return [name + test[len(head) :] for name in self.renamed.get(head, [head])]

    def ids(self, tests: Sequence[str]) -> dict[str, str]:
        """The ids of canaries of some tests, in the order of these, each with its test."""
        behind: dict[str, list[str]] = {}
        for canary, head in self.canaries.items():
            behind.setdefault(head, []).append(canary)
        found: dict[str, str] = {}
        count = Counter[str]()
        for test in tests:
            head = function_of(test)
            count[head] += 1
            if count[head] <= PARAMETERS:
                found |= {one + test[len(head) :]: test for one in behind.get(head, ())}
        return found


def plant(
    tree: Tree, copies: dict[str, list[Function]], rng: random.Random, *, hidden: bool = True
) -> Planted:
    """Put canaries beside their tests.

    Hidden, every test and every canary is there twice, and any of them may have the name that is
    known: neither a name nor what is there only once gives away which is which.
    """
    planted = Planted()
    words = sorted({word for head in copies for word in words_of(head)} | {"again", "one", "all"})
    taken = {name for data in tree.values() for name in re.findall(rb"def (\w+)", data)}
    by_file: dict[str, list[tuple[Place, bytes]]] = {}
    for head, turned_round in copies.items():
        place = find(tree, head)
        assert place is not None
        path, *_, name = head.split("::")
        members = [(place.function, True), *((one, False) for one in turned_round)]
        members = [member for member in members for _ in range(2 if hidden else 1)]
        names = [name] + [drawn(name, words, taken, rng) for _ in members[1:]]
        parts = []
        for (member, own), called in zip(members, mixed(names, rng, hidden), strict=True):
            identity = head.removesuffix(name) + called
            if own:
                planted.renamed.setdefault(head, []).append(identity)
            else:
                planted.canaries[identity] = head
            parts.append(text_of(member, called, place.indent))
        text = b"\n\n".join(mixed(parts, rng, hidden))
        by_file.setdefault(path, []).append((place, text))
    for path, changes in by_file.items():
        lines = tree[path].split(b"\n")
        for place, text in sorted(changes, key=lambda one: one[0].first, reverse=True):
            lines[place.first - 1 : place.last] = [b"", *text.split(b"\n"), b""]
        planted.files[path] = b"\n".join(lines)
    return planted


def mixed(items: list[Any], rng: random.Random, hidden: bool) -> list[Any]:
    return rng.sample(items, len(items)) if hidden else items


def words_of(head: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Za-z][a-z]+", name_of(head))][1:]


def drawn(like: str, words: list[str], taken: set[bytes], rng: random.Random) -> str:
    """A name that a test could have, and none has."""
    while True:
        parts = rng.choices(words, k=rng.randint(2, 4))
        if like.startswith("test_"):
            name = "_".join(["test", *parts])
        else:
            name = "test" + "".join(part.title() for part in parts)
        if name.encode() not in taken:
            taken.add(name.encode())
            return name
        words = [*words, f"{rng.choice(words)}{rng.randint(2, 9)}"]


@lru_cache(maxsize=32)
def sound(known: Repository) -> dict[str, list[int]]:
    """The canaries of a repository that fail as they must: for each test, which of its own. They
    are tried once and kept."""
    kept = folder_of(known.content) / f"canaries-{VERSION}.json"
    if not kept.is_file():
        tried, whole = attempt(known)
        if not whole:  # a limit of this machine is nothing to remember
            return tried
        replace_file(kept, json.dumps(tried).encode())
    found: dict[str, list[int]] = json.loads(kept.read_bytes())
    return found


def canaries(known: Repository, head: str) -> list[Function]:
    """All canaries of a test, sound or not."""
    place = find(known.tree, head)
    return [] if place is None else turned(place.function, derive(0, "canary", head))


def mentioned(data: bytes) -> set[str]:
    """Names that a file uses: a test that others call must keep its own, and stay what it is."""
    nodes = list(ast.walk(parsed(data)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def attempt(known: Repository) -> tuple[dict[str, list[int]], bool]:
    """Which canaries fail in the repository as it was, where a copy of their test passes; and
    whether all runs came to their end."""
    heads = sorted({function_of(test) for test in known.tests})
    places = {head: find(known.tree, head) for head in heads}
    shared = {name_of(head) for head, place in places.items() if place is None or place.inherited}
    found: dict[str, list[int]] = {}
    whole = True
    for path in sorted({head.partition("::")[0] for head in heads}):
        named = mentioned(known.tree[path])
        members = {
            head: [place.function, *canaries(known, head)]
            for head, place in places.items()
            if head.startswith(f"{path}::")
            and place is not None
            and name_of(head) not in named
            and (place.inherited or not place.indent or name_of(head) not in shared)
        }  # renamed, others would be missing where they are inherited or called
        planted = plant(known.tree, members, random.Random(0), hidden=False)
        tests = [test for test in known.tests if function_of(test) in members]
        ids = planted.ids(tests)
        tested = run_tests(
            {**known.tree, **planted.files},
            [path],
            list(ids),
            needs=known.needs,
            cpu_s=(MOST + 2) * known.limit_cpu_s,
            brief=True,
        )
        whole = whole and tested.stop == "ok"
        passed = {function_of(test) for test in ids if test in tested.passed}
        other = {function_of(test) for test in ids if test not in tested.passed}
        ran = {function_of(test) for test in tested.failed}
        order: dict[str, list[str]] = {}
        for canary, head in planted.canaries.items():
            order.setdefault(head, []).append(canary)
        for head, (twin, *others) in order.items():
            if twin in passed - other:
                found[head] = [at for at, one in enumerate(others) if one in ran - passed]
    return {head: numbers for head, numbers in found.items() if numbers}, whole
