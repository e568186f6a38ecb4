"""Which faults the tests of a repository notice: tried once each, and kept.

Invariant: whether a fault counts follows from the repository and the fault alone, never from what
happens to be kept already.
"""

import ast
import json
import re
from functools import lru_cache
from threading import Lock

from coevolve.core.files import replace_file
from coevolve.core.rollout import Value
from coevolve.core.splits import Split, split_of
from coevolve.domains.swe.box import run_tests
from coevolve.domains.swe.faults import Fault, find_faults, parse
from coevolve.domains.swe.repository import Repository, folder_of, repository

DEPTH = 8
"""Faults of one kind, in one repository and split, that tasks are drawn from at the most."""
WRITING = Lock()
"""Threads may have tried the same fault at the same time."""
ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
"""Where something lay in memory, which is another place every time."""


class Noticed(Value):
    """What tests make of a fault."""

    fail: tuple[str, ...]
    """Tests that pass without it and fail with it; empty if the fault does not count."""
    message: str
    """What the first of them says."""


@lru_cache(maxsize=64)
def possible(name: str) -> tuple[Fault, ...]:
    """All faults in code that tests run, in an order that has nothing to do with where they are."""
    known = repository(name)
    found = []
    for path in known.code:
        ran = set(known.lines[path])
        for fault in find_faults(path, known.tree[path]):
            last = fault.line + fault.old.count("\n")
            if fault.key in known.calls and not ran.isdisjoint(range(fault.line, last + 1)):
                found.append(fault)
    return tuple(sorted(found, key=Fault.mark))


@lru_cache(maxsize=1024)
def drawn_from(name: str, kind: str, split: Split) -> tuple[Fault, ...]:
    """The faults of a kind that tasks of a split are drawn from."""
    package = repository(name).source.package
    found = [
        fault
        for fault in possible(name)
        if fault.kind == kind and split_of(fault.place(package)) is split
    ]
    return tuple(found[:DEPTH])


@lru_cache(maxsize=8192)
def noticed(name: str, fault: Fault) -> Noticed:
    """What the tests of a repository make of a fault."""
    known = repository(name)
    kept = folder_of(known.content) / "faults" / f"{fault.mark()}.json"
    if not kept.is_file():
        found = attempt(known, fault)
        with WRITING:
            replace_file(kept, found.model_dump_json().encode())
    return Noticed.model_validate(json.loads(kept.read_bytes()))


def attempt(known: Repository, fault: Fault) -> Noticed:
    """Run the tests that call the function with the fault in it."""
    nothing = Noticed(fail=(), message="")
    changed = fault.apply(known.tree[fault.path])
    if changed is None or not differs(known.tree[fault.path], changed):
        return nothing
    ids = known.tests_of(fault.key)
    tested = run_tests(
        {**known.tree, fault.path: changed},
        files_of(ids),
        ids,
        needs=known.needs,
        cpu_s=known.limit_cpu_s,
    )
    if tested.stop != "ok" or tested.ended is None or tested.broken:
        return nothing
    fail = tuple(name for name in ids if name not in tested.passed)
    if not fail or len(fail) > len(known.tests) // 2:
        return nothing
    message = ADDRESS.sub("0x...", tested.failed.get(fail[0], ""))
    return Noticed(fail=fail, message=message)


def differs(before: bytes, after: bytes) -> bool:
    """Whether a change leaves a program, and another one."""
    try:
        return ast.dump(parse(before)) != ast.dump(parse(after))
    except (SyntaxError, ValueError):
        return False


def files_of(ids: list[str]) -> list[str]:
    """The files that tests are in."""
    return sorted({name.partition("::")[0] for name in ids})
