"""Tasks from real commits: a row says where a repository stood, what mended it, and which tests
show that. The rows are those of SWE-bench.

Invariant: nothing that a row says is believed. Its patches are applied, and its tests are run
before and after, in the sandbox; a row that does not hold is refused with the reason.
"""

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from coevolve.core.errors import DomainError, UserError
from coevolve.core.files import replace_file
from coevolve.core.rollout import Value
from coevolve.core.seeds import digest
from coevolve.domains.swe.box import Tested, run_command, run_tests
from coevolve.domains.swe.git import committed
from coevolve.domains.swe.needs import Wheel, install
from coevolve.domains.swe.notice import files_of
from coevolve.domains.swe.places import is_code, is_protected, touched, with_tests
from coevolve.domains.swe.repository import FIRST_CPU_S, Repository, folder_of, read
from coevolve.domains.swe.source import Source, Tree, bounded, content_of

PATCH = ".coevolve-patch"
TURNS = 100


def listed(value: Any) -> Any:
    """A list that may be written as JSON in a text, as SWE-bench does."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


Tests = Annotated[tuple[str, ...], BeforeValidator(listed)]
Hash = Annotated[str, Field(pattern="^([0-9a-f]{40}|[0-9a-f]{64})$")]


class Row(BaseModel):
    """A line of SWE-bench's format; fields beyond these are left alone."""

    instance_id: str = Field(min_length=1, max_length=200)
    repo: str = Field(min_length=1)
    """The folder of a git repository, or a name that ends like one of the sources."""
    base_commit: Hash
    patch: str = Field(min_length=1)
    test_patch: str
    FAIL_TO_PASS: Tests = Field(min_length=1)
    """As pytest names tests: `tests/test_a.py::test_b`."""
    PASS_TO_PASS: Tests
    problem_statement: str = Field(min_length=1)
    wheels: dict[str, str] = {}
    """What the tests need beside the repository: file names of wheels with their SHA-256."""
    turns: int = Field(default=TURNS, ge=1, le=TURNS)


class Commit(Value):
    """What a task holds of the commit that it is made of."""

    base: Hash
    patch: str
    test_patch: str
    keep: tuple[str, ...]
    """Tests that pass before and after it."""
    statement: str
    wheels: tuple[Wheel, ...] = ()

    def place(self, package: str) -> int:
        """A well-mixed number, the same for the same change of the same package."""
        return int.from_bytes(digest("swe", package, self.patch, size=8), "big") >> 1


@lru_cache(maxsize=32)
def mended(folder: str, commit: Commit, fail: tuple[str, ...]) -> Repository:
    """The repository with a commit's change and its tests in it, measured once and kept."""
    name = f"{folder}@{commit.base[:12]}"
    source = Source(name=name, package=Path(folder).name, folder=folder, wheels=commit.wheels)
    try:
        base = dict(bounded(committed(Path(folder), commit.base), name))
    except UserError as error:
        raise DomainError(str(error)) from None
    needs = install(commit.wheels)
    tree = changed(base, commit)
    both = (content_of(tree, commit.wheels), content_of(base))
    content = digest(*both, *sorted(fail), "keep", *sorted(commit.keep)).hex()
    kept = folder_of(content) / "repository.json"
    if not kept.is_file():
        found = measure(base, tree, needs, fail, commit.keep)
        replace_file(kept, json.dumps(found).encode())
    return Repository(source, content, tree, needs, **read(kept.read_bytes()), base=base)


def changed(base: Tree, commit: Commit) -> Tree:
    """A tree with both patches in it."""
    tested = applied(base, commit.test_patch, "test_patch")
    for path in touched(base, tested):
        if not is_protected(path):
            raise DomainError(
                f"test_patch changes {path}, which is not a test: put tests into files called "
                "test_*.py or into folders called test, tests or testing"
            )
    whole = applied(tested, commit.patch, "patch")
    code = [path for path in touched(tested, whole) if not is_protected(path)]
    if not code:
        raise DomainError("patch changes no code, only tests or how they run")
    for path in code:
        for tree in (base, whole):
            try:
                tree.get(path, b"").decode()
            except UnicodeDecodeError:
                raise DomainError(f"patch changes {path}, which is not text") from None
    return whole


def applied(tree: Tree, patch: str, name: str) -> Tree:
    """A tree with a patch in it; git applies it in the sandbox."""
    if not patch.strip():
        return tree
    data = patch.encode("utf-8", "replace")
    command = f"git apply --whitespace=nowarn {PATCH} && rm {PATCH}"
    shown = run_command({**tree, PATCH: data if data.endswith(b"\n") else data + b"\n"}, command)
    if shown.code or PATCH in shown.tree:
        said = shown.output.strip().partition("\n")[0].removeprefix("error: ")
        raise DomainError(f"{name} does not apply: {said:.200}")
    return shown.tree


def measure(
    base: Tree, tree: Tree, needs: Path | None, fail: tuple[str, ...], keep: tuple[str, ...]
) -> dict[str, Any]:
    """Run the tests that a row names, twice with its change and once without."""
    ids = sorted({*fail, *keep})
    twice = set(fail) & set(keep)
    if twice:
        raise DomainError(f"{min(twice)} is in FAIL_TO_PASS and in PASS_TO_PASS")
    for path in files_of(ids):
        if path not in tree or not is_protected(path):
            raise DomainError(
                f"no file of tests {path!r:.100}: name tests as pytest does, such as "
                "tests/test_a.py::test_b"
            )
    runs = [
        run_tests(one, files_of(ids), ids, needs=needs, cpu_s=FIRST_CPU_S)
        for one in (tree, tree, with_tests(base, tree))
    ]
    for problem in problems(runs, fail, keep):
        raise DomainError(problem)
    lines: dict[str, list[int]] = {path: [] for path in tree if is_code(path)}
    return {"tests": ids, "calls": {}, "lines": lines, "cpu_s": runs[0].cpu_s}


def problems(runs: list[Tested], fail: tuple[str, ...], keep: tuple[str, ...]) -> Iterator[str]:
    """Why the tests of a row do not show what it says that they show."""
    *after, before = runs
    for tested in after:
        for test in (*fail, *keep):
            if test not in tested.passed:
                yield f"{test} does not pass with the patch: {reason(tested, test)}"
    if before.stop != "ok":
        yield f"the tests without the patch are stopped by a limit: {before.stop}"
    for test in fail:
        if test in before.passed:
            yield f"{test} passes without the patch, too"
    for test in keep:
        if test not in before.passed:
            yield f"{test} is in PASS_TO_PASS and fails without the patch: {reason(before, test)}"


def reason(tested: Tested, test: str) -> str:
    """What is known of a test that did not pass."""
    if tested.stop != "ok":
        return f"stopped by a limit: {tested.stop}"
    broken = tested.broken.get(test.partition("::")[0])
    return tested.failed.get(test) or broken or "pytest finds no such test"
