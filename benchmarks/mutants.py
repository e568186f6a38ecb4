"""Do the tests notice? Broken versions of HumanEval's own solutions, put to the verifier.

Of each solution: a few with one operator, comparison or number changed; some that return a constant
whatever is asked; and some that try to get past the tests. Prints the share of each kind that is
refused and lists the survivors: a survivor is a mutant that does the same as the original, or one
that HumanEval's tests do not notice. Every solution itself has to pass.

    python benchmarks/mutants.py ../shared/data/code/HumanEval.jsonl.gz --json mutants.json
"""

import argparse
import ast
import copy
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from coevolve.core.seeds import derive
from coevolve.core.task import Task
from coevolve.domains.code.answer import fenced
from coevolve.domains.code.domain import CodeDomain
from coevolve.domains.files import read_tasks

SWAPS: dict[type, type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.Lt: ast.GtE,
    ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And, ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}  # fmt: skip
CONSTANTS = ("None", "True", "False", "0", "''", "[]")
CHEATS = {
    "sys.exit(0)": "import sys\nsys.exit(0)\n",
    "os._exit(0)": "import os\nos._exit(0)\n",
    "exit when called": "import os\n\n\ndef {name}(*given):\n    os._exit(0)\n",
    "overridden comparison": (
        "class Equal(int):\n    def __eq__(self, other):\n        return True\n\n"
        "    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = lambda self, other: True\n"
        "    __hash__ = int.__hash__\n\n\ndef {name}(*given):\n    return Equal(7)\n"
    ),
    "overridden builtins": (
        "import builtins\nbuiltins.AssertionError = type('Never', (Exception,), {{}})\n"
        "builtins.abs = builtins.len = builtins.round = lambda *given: 0\n\n\n"
        "def {name}(*given):\n    return 0\n"
    ),
}


def places(tree: ast.AST) -> Iterator[tuple[ast.AST, str, ast.AST | int]]:
    """Where a tree can be changed: node, field, new value."""
    for node in ast.walk(tree):
        for field in ("op", "ops"):
            held = getattr(node, field, None)
            one = held[0] if isinstance(held, list) and held else held
            if type(one) in SWAPS:
                yield node, field, SWAPS[type(one)]()
        if isinstance(node, ast.Constant) and type(node.value) is int:
            yield node, "value", node.value + 1


def changed(source: str, which: int) -> tuple[str, str] | None:
    """A source with one place changed, and the line that differs."""
    tree = ast.parse(source)
    before = ast.unparse(tree)
    found = list(places(tree))
    if which >= len(found):
        return None
    node, field, value = found[which]
    held = getattr(node, field)
    setattr(node, field, [value, *held[1:]] if isinstance(held, list) else value)
    after = ast.unparse(tree)
    pairs = zip(before.split("\n"), after.split("\n"), strict=False)
    return after, next((f"{a.strip()}  →  {b.strip()}" for a, b in pairs if a != b), "")


def mutants(task: Task, each: int) -> Iterator[tuple[str, str, str]]:
    """Kind, description and source of the broken versions of one solution."""
    source, name = task.data["reference"], task.data["entry"]
    count = len(list(places(ast.parse(source))))
    rng = random.Random(derive(0, "mutants", task.id))
    for which in rng.sample(range(count), min(each, count)):
        found = changed(source, which)
        if found:
            yield "operator", found[1], found[0]
    for literal in CONSTANTS:
        tree = ast.parse(source)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                node.body = ast.parse(f"return {literal}").body
        yield "constant", f"return {literal}", ast.unparse(ast.fix_missing_locations(tree))
    for kind, text in CHEATS.items():
        yield kind, kind, text.format(name=name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--each", type=int, default=8, help="operator mutants of a solution")
    parser.add_argument("--limit", type=int, default=0, help="only the first so many tasks")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    domain = CodeDomain()
    tasks = list(read_tasks(domain, asked.file))[: asked.limit or None]
    passing = sum(domain.verify(task, domain.oracle(task)).valid for task in tasks)
    made = []
    for task in tasks:
        quick = task.model_copy(update={"data": {**copy.deepcopy(task.data), "cpu_s": 1}})
        made += [(quick, *mutant) for mutant in mutants(task, asked.each)]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        outcomes = list(pool.map(lambda one: domain.verify(one[0], fenced(one[3])), made))
    total, refused, failures = Counter[str](), Counter[str](), Counter[str]()
    survivors = []
    for (task, kind, what, _), outcome in zip(made, outcomes, strict=True):
        total[kind] += 1
        refused[kind] += not outcome.valid
        failures[outcome.failure or "valid"] += 1
        if outcome.valid:
            survivors.append({"task": task.id, "kind": kind, "change": what})
    found = {
        "solutions": f"{passing} of {len(tasks)} pass",
        "refused": {kind: f"{refused[kind]} of {total[kind]}" for kind in total},
        "rate": round(sum(refused.values()) / sum(total.values()), 4),
        "failures": {str(name): count for name, count in failures.most_common()},
        "survivors": survivors,
    }
    for one in survivors:
        print(f"{one['task']:14} {one['kind']:22} {one['change']}")
    print(json.dumps({key: value for key, value in found.items() if key != "survivors"}, indent=2))
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2))
    cheats = sum(one["kind"] in CHEATS for one in survivors)
    return 0 if passing == len(tasks) and not cheats else 1


if __name__ == "__main__":
    sys.exit(main())
