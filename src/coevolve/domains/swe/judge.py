"""The verdict on a repository that a policy has worked on, by tests that it never saw.

Invariant: tests, and all that decides how they run, are the original ones, whatever was done to
them. The code under test runs in the process that tests it, so no report from there is proof. What
is believed is only what a lie would have to get right in every part: a report for each test, an end
that fits, and failures of canaries that nothing tells from the tests beside them.
"""

import random
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coevolve.core.errors import DomainError
from coevolve.core.rollout import Outcome
from coevolve.core.seeds import digest
from coevolve.core.task import Task
from coevolve.domains import simple
from coevolve.domains.swe.box import run_tests
from coevolve.domains.swe.canary import Function, Planted, canaries, plant, sound
from coevolve.domains.swe.notice import files_of
from coevolve.domains.swe.places import SETTINGS, is_protected, touched, with_tests
from coevolve.domains.swe.repository import Repository, function_of
from coevolve.domains.swe.source import Tree
from coevolve.domains.swe.work import known_of, unfold, work_of

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
GROUPS, COPIES = 4, 3
"""Hidden tests that have canaries in a run, as many others, and canaries of each."""
NEAR = 20
"""Other tests that are run beside the hidden ones when these are run again."""
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
        VERDICTS[key] = run_hidden(known_of(work_of(task)), task.data["fail"], tree)
        while len(VERDICTS) > KEPT:
            VERDICTS.popitem(last=False)
    return VERDICTS[key]


class Trial(NamedTuple):
    """What a run of tests with canaries among them has shown."""

    passed: frozenset[str]
    failed: Mapping[str, str]
    broken: str
    """Why files could not be read as tests, empty if all could."""
    verdict: Checked | None
    """The verdict, where the run decides it alone."""


def put_to_test(known: Repository, tree: Tree, tests: list[str], hidden: list[str]) -> Trial:
    """Run some tests, with canaries of some of them drawn only now."""
    rng = random.SystemRandom()
    planted = plant(known.tree, pick(known, tests, hidden, rng), rng)
    turned = planted.ids(rng.sample(tests, len(tests)))
    now = {test: planted.now(test) for test in tests}
    ids = sorted([*(name for names in now.values() for name in names), *turned])
    whole = {**with_tests(tree, known.tree), **planted.files}
    tested = run_tests(whole, files_of(ids), ids, needs=known.needs, cpu_s=known.limit_cpu_s)
    passed = frozenset(test for test, names in now.items() if tested.passed.issuperset(names))
    before = {name: test for test, names in now.items() for name in names}
    failed = {before.get(name, name): message for name, message in tested.failed.items()}
    first = next(iter(tested.broken.values()), "")
    both = [name for name, test in turned.items() if test in passed and name in tested.passed]
    missing = turned.keys() - tested.passed - tested.failed.keys()
    verdict = None
    if tested.stop != "ok":
        verdict = Checked("time", reason=f"stopped by its limit: {tested.stop}")
    elif both and not contrary(known, planted, both):
        verdict = Checked("tampered", reason="a test and its contrary were both said to pass")
    elif tested.ended is None or (missing and not first):
        verdict = Checked("broken", reason=first or "the tests never came to their end")
    return Trial(passed, failed, first, verdict)


def contrary(known: Repository, planted: Planted, names: list[str]) -> bool:
    """Whether some canaries pass in the repository as it was, too, and so say nothing."""
    whole = {**known.tree, **planted.files}
    tested = run_tests(whole, files_of(names), names, needs=known.needs, cpu_s=known.limit_cpu_s)
    return tested.passed >= set(names)


def pick(
    known: Repository, tests: list[str], hidden: list[str], rng: random.Random
) -> dict[str, list[Function]]:
    """Canaries for a run: of some hidden tests, and of some others."""
    made = sound(known)
    groups = ({function_of(test) for test in hidden}, {function_of(test) for test in tests})
    heads: list[str] = []
    for group in groups:
        choice = sorted((group & made.keys()) - set(heads))
        heads += rng.sample(choice, min(GROUPS, len(choice)))
    if not heads:
        raise DomainError(
            f"no test of {known.name} can be reversed, so nothing shows whether results are "
            "forged; take a source with assertions in its tests"
        )
    return {
        head: [
            canaries(known, head)[at] for at in rng.sample(made[head], min(COPIES, len(made[head])))
        ]
        for head in heads
    }


def run_hidden(known: Repository, fail: list[str], tree: Tree) -> Checked:
    """Run every test that can be relied on."""
    tests = list(known.tests)
    trial = put_to_test(known, tree, tests, fail)
    if trial.verdict:
        return trial.verdict
    fixed = len(trial.passed & set(fail))
    lost = sorted(set(tests) - set(fail) - trial.passed)
    if 0 < len(lost) <= AGAIN:
        again = put_to_test(known, tree, sorted([*lost, *fail]), fail)
        if again.verdict and again.verdict.failure == "tampered":
            return again.verdict
        lost = [name for name in lost if name not in again.passed]
    if trial.broken and not fixed:
        return Checked("broken", 0, len(lost), trial.broken)
    if fixed < len(fail):
        missing = next(name for name in fail if name not in trial.passed)
        return Checked("still_failing", fixed, len(lost), said(trial.failed, missing))
    if lost:
        return Checked("regression", fixed, len(lost), said(trial.failed, lost[0]))
    if len({function_of(test) for test in fail}) < GROUPS:  # few to guess: they are drawn again
        others = random.SystemRandom().sample(tests, min(NEAR, len(tests)))
        trial = put_to_test(known, tree, sorted({*fail, *others}), fail)
        if trial.verdict or not trial.passed.issuperset(fail):
            return trial.verdict or Checked("still_failing", 0, 0, "not when it was run again")
    return Checked(None, fixed)


def said(failed: Mapping[str, str], name: str) -> str:
    return f"{name}: {failed.get(name, 'did not run')}"


def changed_tests(before: Tree, after: Tree) -> bool:
    """Whether tests, or how they run, were changed or taken away; new tests are nobody's loss."""
    return any(
        is_protected(name) and (name in before or name.rpartition("/")[2] in SETTINGS)
        for name in touched(before, after)
    )
