"""The verdict on a repository that a policy has worked on, by tests that it never saw.

Invariant: tests, and all that decides how they run, are the original ones, whatever was done to
them. The code under test runs in the process that tests it, so what is believed is only what a lie
would have to get right in every part: each test's own report behind a secret word, the report of a
test that must fail, and an end that fits.
"""

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coevolve.core.rollout import Outcome
from coevolve.core.seeds import digest
from coevolve.core.task import Task
from coevolve.domains import simple
from coevolve.domains.swe.box import run_tests
from coevolve.domains.swe.notice import files_of
from coevolve.domains.swe.places import SETTINGS, is_made, is_protected
from coevolve.domains.swe.repository import Repository, repository
from coevolve.domains.swe.source import Tree
from coevolve.domains.swe.work import unfold

FAILURES: dict[str, str] = {
    "format": "no tool call that could be read in any turn",
    "turns": "the work was never submitted: out of turns, or cut off",
    "wrong_edit": "submitted without a change of the code, since every edit failed to apply",
    "tampered": "tests were changed instead of the code, or their results forged",
    "no_patch": "submitted without any change of the code",
    "time": "the tests ran out of time or of what else they may use",
    "broken": "the tests cannot be run any more: an import or a syntax error, or an early exit",
    "still_failing": "hidden tests that should pass now still fail",
    "regression": "tests that passed before fail now",
}
WEIGHTS = {"tests": 0.3, "solved": 0.7}
AGAIN = 5
"""Tests that passed before and fail now are run once more if there are so few."""
KEPT = 512


@dataclass(eq=False)
class Attempted:
    """What an episode leaves."""

    tree: Tree
    calls: list[dict[str, Any]] = field(default_factory=list)
    turns: int = 0
    submitted: bool = False
    tests_run: int = 0
    first_edit: int | None = None
    history_read: bool = False


class Checked(NamedTuple):
    """What came of the hidden tests."""

    failure: str | None
    fixed: int = 0
    """Tests that failed before and pass now."""
    lost: int = 0
    """Tests that passed before and fail now."""
    reason: str = ""


VERDICTS: OrderedDict[bytes, Checked] = OrderedDict()
"""The last verdicts, by the work they are about: running tests takes seconds."""


def judge(task: Task, attempted: Attempted) -> Outcome:
    """The outcome of an episode."""
    unfolded = unfold(task)
    files = touched(unfolded.given, attempted.tree)
    code = [path for path in files if not is_protected(path)]
    tests_changed = changed_tests(unfolded.given, attempted.tree)
    early = too_early(attempted, bool(code), tests_changed)
    verdict = Checked(early) if early else by_tests(task, attempted.tree, code)
    work, fail = unfolded.work, len(unfolded.work.fail)
    kept = unfolded.total - fail
    share = max(0.0, verdict.fixed / fail - verdict.lost / max(1, kept))
    components = {"tests": share, "solved": float(verdict.failure is None)}
    details: dict[str, Any] = {
        "calls": attempted.calls,
        "files": files,
        "tests_run": attempted.tests_run,
        "tests_changed": tests_changed,
        "first_edit": attempted.first_edit,
        "history_read": attempted.history_read,
        "turns": attempted.turns,
        "submitted": attempted.submitted,
        "fixed": verdict.fixed,
        "fail_to_pass": fail,
        "lost": verdict.lost,
        "pass_to_pass": kept,
        "history": work.history,
    }
    reason = verdict.reason or FAILURES.get(verdict.failure or "", "")
    reward = sum(WEIGHTS[name] * value for name, value in components.items())
    return simple.verdict(verdict.failure, reason, components, reward, details)


def too_early(attempted: Attempted, changed: bool, tests_changed: bool) -> str | None:
    """The failure of an attempt that need not be tested."""
    if not attempted.submitted:
        readable = any(call["tool"] != "unreadable" for call in attempted.calls)
        return "turns" if readable else "format"
    if changed:
        return None
    if tests_changed:
        return "tampered"
    edits = [call["ok"] for call in attempted.calls if call["tool"] == "edit"]
    return "wrong_edit" if edits and not any(edits) else "no_patch"


def by_tests(task: Task, tree: Tree, code: list[str]) -> Checked:
    """The verdict of the hidden tests on some changed files."""
    parts = (part for path in code for part in (path, tree.get(path, b"gone")))
    key = digest(task.id, *parts)
    if key not in VERDICTS:
        VERDICTS[key] = run_hidden(repository(task.data["source"]), task.data["fail"], tree)
        while len(VERDICTS) > KEPT:
            VERDICTS.popitem(last=False)
    return VERDICTS[key]


def restored(known: Repository, tree: Tree) -> Tree:
    """The code of one tree with the tests of the repository as it was."""
    code = {name: data for name, data in tree.items() if not is_protected(name)}
    tests = {name: data for name, data in known.tree.items() if is_protected(name)}
    return {**{name: data for name, data in code.items() if not is_made(name)}, **tests}


def run_hidden(known: Repository, fail: list[str], tree: Tree) -> Checked:
    """Run every test that can be relied on, with a test among them that must fail."""
    word = secrets.token_hex(6)
    folder = fail[0].partition("::")[0].rpartition("/")[0]
    path = f"{folder}/test_{word}.py".removeprefix("/")
    canary = (
        f"def test_a{word}():\n    assert [{word!r}] == []\n\n\ndef test_b{word}():\n    pass\n"
    )
    must_fail, must_pass = f"{path}::test_a{word}", f"{path}::test_b{word}"
    ids = sorted([*known.tests, must_fail, must_pass])
    whole = {**restored(known, tree), path: canary.encode()}
    tested = run_tests(whole, files_of(ids), ids, cpu_s=known.limit_cpu_s)
    if tested.stop != "ok":
        return Checked("time", reason=f"stopped by its limit: {tested.stop}")
    if must_fail in tested.passed:
        return Checked("tampered", reason="a test that must fail was said to pass")
    passed = tested.passed & set(known.tests)
    first = next(iter(tested.broken.values()), "")
    if tested.ended is None or must_fail not in tested.failed or must_pass not in tested.passed:
        return Checked("broken", reason=first or "the tests never came to their end")
    fixed = len(passed & set(fail))
    lost = sorted(set(known.tests) - set(fail) - passed)
    if 0 < len(lost) <= AGAIN:
        again = run_tests(whole, files_of(lost), lost, cpu_s=known.limit_cpu_s)
        lost = [name for name in lost if name not in again.passed]
    if tested.broken and not fixed:
        return Checked("broken", 0, len(lost), first)
    if fixed < len(fail):
        missing = next(name for name in fail if name not in passed)
        return Checked("still_failing", fixed, len(lost), said(tested.failed, missing))
    if lost:
        return Checked("regression", fixed, len(lost), said(tested.failed, lost[0]))
    return Checked(None, fixed)


def said(failed: Mapping[str, str], name: str) -> str:
    return f"{name}: {failed.get(name, 'did not run')}"


def touched(before: Tree, after: Tree) -> list[str]:
    """Files of a repository that are not as they were."""
    return sorted(
        name
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name) and not is_made(name)
    )


def changed_tests(before: Tree, after: Tree) -> bool:
    """Whether tests, or how they run, were changed or taken away; new tests are nobody's loss."""
    return any(
        is_protected(name) and (name in before or name.rpartition("/")[2] in SETTINGS)
        for name in touched(before, after)
    )
