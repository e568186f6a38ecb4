"""A task, unfolded: the repository with its faults, as the policy gets it, and as it is judged.

Invariant: what a policy gets holds none of the tests that fail, and no history unless the task says
so.
"""

import ast
import difflib
import json
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from pydantic import Field, model_validator

from coevolve.core.errors import DomainError, UserError
from coevolve.core.rollout import Value
from coevolve.core.sequences import alike
from coevolve.core.task import Label, Task
from coevolve.domains.swe.box import run_command
from coevolve.domains.swe.commit import Commit, mended
from coevolve.domains.swe.faults import Fault, apply_all, disjoint, parse
from coevolve.domains.swe.places import is_protected, touched
from coevolve.domains.swe.repository import Repository, repository
from coevolve.domains.swe.source import Tree

FIX = ".coevolve-fix"
HISTORY = f"""\
export GIT_AUTHOR_NAME=dev GIT_AUTHOR_EMAIL=dev@example.org GIT_AUTHOR_DATE=2024-01-01T00:00:00Z
export GIT_COMMITTER_NAME=dev GIT_COMMITTER_EMAIL=dev@example.org
export GIT_COMMITTER_DATE=2024-01-01T00:00:00Z HOME=/tmp
mv {FIX} /tmp/fix && git init -q -b work . && git add -A -f . && git commit -q -m 'Before the fix'
git checkout -q -b main && cp -r /tmp/fix/. . && git commit -q -a -m 'Fix the fault'
git checkout -q work && git repack -a -d -q && git prune-packed -q && rm -rf .git/hooks .git/logs
"""
"""The commit that mends the fault stays behind on the branch `main`."""

LINES = re.compile(r"[^\n]*\n|[^\n]+")
WORDS = re.compile(r"\w+|\s+|[^\w\s]+")
SHOWN, CALLS = 6_000, 200
"""What is shown of a tool's answer, and how many calls there are, unless a task says otherwise."""


class Work(Value):
    """What the data of a task hold."""

    source: str
    """Name of the source; the folder of a git repository where a commit is given."""
    content: str
    """Hash of its files."""
    faults: tuple[Fault, ...] = Field(max_length=8)
    commit: Commit | None = Field(default=None, exclude_if=lambda commit: commit is None)
    """What mended it, where that was a real commit and not a fault was put in."""
    fail: tuple[str, ...] = Field(min_length=1)
    """Hidden tests that fail as long as nothing is mended, and pass then."""
    seen: tuple[str, ...]
    """What a failing test says, for each fault."""
    hint: int = Field(ge=0, le=4)
    """How much the issue gives away."""
    turns: int = Field(ge=1, le=100)
    shown: int = Field(default=SHOWN, ge=100, le=100_000, exclude_if=lambda shown: shown == SHOWN)
    """Characters of what a tool says that the policy gets."""
    calls: int = Field(default=CALLS, ge=1, le=CALLS, exclude_if=lambda calls: calls == CALLS)
    """Most calls of tools, of which handing the work in is none."""
    history: bool
    issue: str = ""
    """What the policy is told; it follows from all the rest."""

    @model_validator(mode="after")
    def _one_origin(self) -> "Work":
        if bool(self.faults) == bool(self.commit):
            raise ValueError("a task has either faults or a commit")
        return self


class Unfolded(Value):
    """All that follows from a task's data."""

    work: Work
    given: Tree
    """The repository as the policy gets it."""
    mended: Tree
    """The files to be changed, as they should be."""
    gone: list[str]
    """Files that should not be there."""
    needs: Path | None
    """The folder of what the repository needs beside it."""
    total: int
    """Tests that judge: those that fail, and those that must go on passing."""


def work_of(task: Task) -> Work:
    return Work.model_validate(task.data)


def unfold(task: Task) -> Unfolded:
    return cached(json.dumps(task.data, sort_keys=True))


@lru_cache(maxsize=128)
def cached(text: str) -> Unfolded:
    work = Work.model_validate_json(text)
    known = known_of(work)
    check(work, known)
    if known.base is None:
        changed = apply_all(list(work.faults), known.tree)
        assert changed is not None
        given = {**hide(known.tree, work.fail), **changed}
        paths = list(changed)
    else:
        given = hide(known.base, work.fail, inherited=False)
        paths = [path for path in touched(known.base, known.tree) if not is_protected(path)]
    whole = {path: known.tree[path] for path in paths if path in known.tree}
    if work.history:
        given = with_history(given, whole)
    return Unfolded.model_construct(
        work=work,
        given=given,
        mended=whole,
        gone=[path for path in paths if path not in known.tree],
        needs=known.needs,
        total=len(known.tests),
    )


def known_of(work: Work) -> Repository:
    """The repository that a task is about."""
    if work.commit is not None:
        return mended(work.source, work.commit, work.fail)
    return repository(work.source)


def check(work: Work, known: Repository) -> None:
    """Refuse a task that is not about this repository."""
    if work.content != known.content:
        raise UserError(
            f"{work.source} has other files now than when the task was made "
            f"({known.content}, not {work.content})"
        )
    if apply_all(list(work.faults), known.tree) is None or not disjoint(list(work.faults)):
        raise UserError(f"the faults of the task do not fit the files of {work.source}")
    unknown = sorted(set(work.fail) - set(known.tests))
    if unknown:
        raise UserError(f"{work.source} has no test '{unknown[0]}' that passes")


def bucket_of(work: Work) -> dict[str, Label]:
    known = known_of(work)
    return {
        "package": known.source.package,
        "size": known.size,
        "fault": work.faults[0].kind if work.faults else "commit",
        "faults": len(work.faults) or 1,
        "hint": work.hint,
        "history": work.history,
    }


def with_history(given: Tree, mended: Tree) -> Tree:
    """The repository with a history that has the commit which mends it."""
    before = {**given, **{f"{FIX}/{path}": data for path, data in mended.items()}}
    shown = run_command(before, HISTORY)
    if shown.code or not any(path.startswith(".git/refs/") for path in shown.tree):
        raise DomainError(f"cannot make a git history in the sandbox: {shown.output[-200:]}")
    return shown.tree


def hide(tree: Tree, fail: tuple[str, ...], *, inherited: bool = True) -> Tree:
    """A tree without the tests named, wherever they are defined; or, not `inherited`, without those
    that are where their names say. A commit's new tests are nowhere in the tree before it."""
    left = dict(tree)
    elsewhere: set[str] = set()
    for path in {name.partition("::")[0] for name in fail} & tree.keys():
        names = {
            tuple(name.partition("[")[0].split("::")[1:])
            for name in fail
            if name.partition("::")[0] == path
        }
        left, missing = removed(left, path, names)
        elsewhere |= {names[-1] for names in missing}
    if elsewhere and inherited:  # from a class of another file: by name, wherever tests are
        for path in [path for path in left if is_protected(path) and path.endswith(".py")]:
            left = removed(left, path, set(), elsewhere)[0]
    return left


def removed(
    tree: Tree,
    path: str,
    names: set[tuple[str, ...]],
    anywhere: set[str] = frozenset(),  # type: ignore[assignment]
) -> tuple[Tree, set[tuple[str, ...]]]:
    """A tree with some functions of a file taken out, and those that were not there.

    A file that does not survive it goes as a whole.
    """
    try:
        module = parse(tree[path])
    except (SyntaxError, ValueError):
        return tree, set()
    lines, found = tree[path].split(b"\n"), set()
    cuts: list[tuple[int, int, bytes]] = []
    for where, body in bodies(module, ()):
        gone = [
            one
            for one in body
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
            and ((*where, one.name) in names or one.name in anywhere)
        ]
        for number, one in enumerate(gone):
            found.add((*where, one.name))
            first = min(part.lineno for part in (one, *one.decorator_list))
            rest = b" " * one.col_offset + b"pass"
            keep = where and len(gone) == len(body) and not number
            cuts.append((first, one.end_lineno or first, rest if keep else b""))
    if not cuts:
        return tree, names
    for first, last, instead in sorted(cuts, reverse=True):
        lines[first - 1 : last] = [instead] if instead else []
    data = b"\n".join(lines)
    try:
        parse(data)
    except (SyntaxError, ValueError):
        return {one: kept for one, kept in tree.items() if one != path}, names - found
    return {**tree, path: data}, names - found


def bodies(
    node: ast.Module | ast.ClassDef, names: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], list[ast.stmt]]]:
    """The body of a module and of each class in it, with the names of the classes."""
    yield names, node.body
    for child in node.body:
        if isinstance(child, ast.ClassDef):
            yield from bodies(child, (*names, child.name))


def mending(path: str, faulty: bytes, whole: bytes) -> list[dict[str, str | int]]:
    """Edits that turn one file into another: of a text that is in its line exactly once, or, where
    lines come or go, in the file."""
    before, after = LINES.findall(faulty.decode()), LINES.findall(whole.decode())
    found = list[dict[str, str | int]]()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, low, high, first, last in matcher.get_opcodes():
        if tag == "equal":
            continue
        if high - low == last - first:
            for at in range(last - first):
                old, new = words_changed(before[low + at], after[first + at])
                found.append({"path": path, "line": first + at + 1, "old": old, "new": new})
            continue
        text = "".join([*after[:first], *before[low:]])  # what the edits so far have made
        for around in range(len(before) + 1):
            left, right = after[max(0, first - around) : first], before[high : high + around]
            old = "".join([*left, *before[low:high], *right])
            if old and text.count(old) == 1:
                break
        new = "".join([*left, *after[first:last], *right])
        found.append({"path": path, "old": old, "new": new})
    return found


def words_changed(before: str, after: str) -> tuple[str, str]:
    """The words of a line that are others in another line, with as many beside them as it takes to
    be there exactly once."""
    old, new = WORDS.findall(before), WORDS.findall(after)
    begin = len(alike(old, new))
    end = min(len(alike(old[::-1], new[::-1])), len(old) - begin, len(new) - begin)
    while before.count(part := "".join(old[begin : len(old) - end])) != 1 or not part:
        begin, end = (begin - 1, end) if begin else (0, end - 1)
    return part, "".join(new[begin : len(new) - end])
