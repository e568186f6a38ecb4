"""A repository to make tasks of: its files, the tests that can be relied on, and what they run.

Invariant: a test counts only if it passed in two runs, so that one which fails later was broken by
a change.
"""

import json
import platform
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from coevolve.core.errors import UserError
from coevolve.core.files import cache_root, replace_file
from coevolve.domains.swe.box import Tested, run_tests
from coevolve.domains.swe.fetch import plain
from coevolve.domains.swe.needs import install
from coevolve.domains.swe.places import is_code, is_test
from coevolve.domains.swe.source import Source, Tree, content_of, read_source, tree_of

VERSION = 2
"""Rises when what is measured, or how, changes."""
SIZES = {"small": 1_000, "medium": 2_500, "large": 1 << 30}
"""Lines of code, below which a repository is of a size."""
FIRST_CPU_S = 120


@dataclass(frozen=True, eq=False)
class Repository:
    """One for each source, or for each commit: it is the same only as itself."""

    source: Source
    content: str
    """Hash of all files, and of the wheels that it needs."""
    tree: Tree
    needs: Path | None
    """The folder of what its tests need beside it."""
    tests: tuple[str, ...]
    """Ids of the tests that can be relied on."""
    calls: dict[str, list[int]]
    """`PATH:FIRST LINE` of each function that tests call, with the places of those tests."""
    lines: dict[str, list[int]]
    """Lines that tests run, by file."""
    cpu_s: float
    """What running all tests takes."""
    base: Tree | None = None
    """All files before the commit that mended it; None where faults are put into it."""

    @property
    def name(self) -> str:
        return self.source.name

    @cached_property
    def code(self) -> list[str]:
        """Files that faults may go into: those that tests run."""
        return sorted(path for path in self.lines if is_code(path) and path in self.tree)

    @cached_property
    def length(self) -> int:
        return sum(self.tree[path].count(b"\n") for path in self.code)

    @cached_property
    def size(self) -> str:
        return next(size for size, most in SIZES.items() if self.length < most)

    @property
    def limit_cpu_s(self) -> int:
        """Processor time that running tests may take: a loop that never ends takes more."""
        return 5 + int(4 * self.cpu_s)

    def tests_of(self, key: str) -> list[str]:
        return [self.tests[place] for place in self.calls.get(key, [])]


@lru_cache(maxsize=32)
def repository(name: str) -> Repository:
    """The repository of a source, measured once and kept."""
    source = read_source(name)
    tree = tree_of(source)
    own = [wheel.file for wheel in source.wheels if wheel.package == plain(source.package)]
    if own:
        raise UserError(f"the wheel {own[0]} is {source.name} itself and would give faults away")
    content = content_of(tree, source.wheels)
    needs = install(source.wheels)
    kept = folder_of(content) / "repository.json"
    if not kept.is_file():
        replace_file(kept, json.dumps(measure(source, tree, needs)).encode())
    return Repository(source, content, tree, needs, **read(kept.read_bytes()))


def read(data: bytes) -> dict[str, Any]:
    found = json.loads(data)
    return {**found, "tests": tuple(found["tests"])}


def folder_of(content: str) -> Path:
    """Where what is known about a repository is kept; another Python may find another thing."""
    version = platform.python_version()
    return cache_root() / "swe" / f"v{VERSION}-{version}" / content


def measure(source: Source, tree: Tree, needs: Path | None) -> dict[str, Any]:
    """Run all tests twice, and once more watching what they call, which some do not bear."""
    test_files = sorted(path for path in tree if is_test(path))
    if not test_files:
        raise UserError(
            f"{source.name} has no tests (files called test_*.py or *_test.py); take a source "
            "whose tests are in it"
        )
    first = run_tests(tree, test_files, needs=needs, cpu_s=FIRST_CPU_S)
    if not first.passed:
        raise UserError(
            f"no test of {source.name} passes in the sandbox: {why(first)}; take a source of pure "
            "Python that needs no other package, since nothing is built or installed"
        )
    second = run_tests(tree, test_files, needs=needs, cpu_s=FIRST_CPU_S)
    watched = run_tests(tree, test_files, needs=needs, cpu_s=4 * FIRST_CPU_S, trace=True)
    tests = steady(first, second, set(watched.calls))
    if not tests:
        raise UserError(f"no test of {source.name} passes twice: {why(second)}")
    calls: dict[str, list[int]] = {}
    for place, test in enumerate(tests):
        for path, line in watched.calls.get(test, []):
            if is_code(path):
                calls.setdefault(f"{path}:{line}", []).append(place)
    lines = {path: lines for path, lines in watched.lines.items() if is_code(path)}
    if not calls:
        raise UserError(f"the tests of {source.name} call no function of its own code")
    return {"tests": tests, "calls": calls, "lines": lines, "cpu_s": first.cpu_s}


def steady(first: Tested, second: Tested, third: set[str]) -> list[str]:
    """Tests that passed twice, without functions that are called otherwise every time."""
    both = first.passed & second.passed
    moving = {function_of(name) for name in (first.passed | second.passed) ^ both}
    moving |= {function_of(name) for name in both - third}
    return sorted(name for name in both if function_of(name) not in moving)


def function_of(test: str) -> str:
    """A test without its parameters."""
    return test.partition("[")[0]


def why(tested: Tested) -> str:
    """The first thing that went wrong, in a line."""
    for messages in (tested.broken, tested.failed):
        for name, message in messages.items():
            return f"{name}: {message}"
    return {"ok": "pytest finds none"}.get(tested.stop, f"stopped by its limit: {tested.stop}")
