"""One attempt at a task: a private copy of the repository, and tools to work on it.

Invariant: the copy is a value in memory. Only `run` lets code of the repository or of a policy run,
in a sandbox of its own, and takes back nothing from there but names and bytes.
"""

import re
from collections.abc import Callable
from typing import Any

from coevolve.core.rollout import Outcome
from coevolve.core.task import Task
from coevolve.domains.swe.box import run_command
from coevolve.domains.swe.calls import Call, read_calls
from coevolve.domains.swe.judge import Attempted, judge
from coevolve.domains.swe.places import is_made
from coevolve.domains.swe.work import unfold

LINES = 200
MATCHES = 60
COMMAND_S = 60
LARGEST_FILE = 1 << 20
GIT = re.compile(r"\bgit\b(?!\s++(?:status|add|config|init|help|--version)\b)")
"""Of the repository's past, for all that we know: what does not only look at the present."""
TESTING = re.compile(r"\b(pytest|unittest|py\.test)\b")
PROGRAM = re.compile(r"\bpython[0-9.]*+\s++(\S*)\.py\b")
OVER = "error: no calls are left; submit the work"
HELP = 'No tool call found. Write a block such as\n```tool\n{"tool": "list", "path": ""}\n```'


class ToolError(ValueError):
    """Why a tool did not do what it was asked for."""


class SweEpisode(Attempted):
    """Implements the `Episode` protocol; the methods named like tools are the tools."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.unfolded = unfold(task)
        super().__init__(dict(self.unfolded.given))

    def reply(self, text: str) -> str | None:
        """Make the calls of a turn; None once the work is submitted."""
        self.turns += 1
        calls = read_calls(text)
        answers = [self.make(call) for call in calls if not self.submitted]
        if self.submitted:
            return None
        return "\n\n".join(answers) or HELP

    def outcome(self, text: str, tokens: int | None = None) -> Outcome:
        return judge(self.task, self)

    def make(self, call: Call) -> str:
        """Make one call and note what came of it."""
        if call.problem and self.over:
            return OVER
        if call.problem:
            self.note(call.tool or "unreadable", False)
            return f"error: {call.problem}"
        tool: Callable[..., str] = getattr(self, call.tool)  # one of TOOLS, or it has a problem
        return tool(**call.arguments)

    def note(self, tool: str, ok: bool, path: str = "") -> None:
        if tool == "edit" and self.first_edit is None:
            self.first_edit = len(self.calls)
        call: dict[str, Any] = {"tool": tool, "ok": ok, "turn": self.turns}
        self.calls.append({**call, "path": path} if path else call)

    @property
    def over(self) -> bool:
        """Whether all calls are used up."""
        return len(self.calls) >= self.unfolded.work.calls

    def attempt(self, tool: str, path: str, work: Callable[[str], str]) -> str:
        """Do something with a path and note whether it could be done."""
        if self.over:
            return OVER
        place = path.strip().removeprefix("./").rstrip("/")
        place = "" if place == "." else place
        if place.split("/")[0] == ".git":
            self.history_read = self.history_read or self.unfolded.work.history
        try:
            said = work(place)
        except ToolError as error:
            self.note(tool, False, place[:200])
            return f"error: {error}"
        self.note(tool, True, place[:200])
        return cut(said, self.unfolded.work.shown)

    def list(self, path: str = "") -> str:
        """List the files of a folder and of all folders in it.

        Args:
            path: A folder, as seen from the root of the repository; all of it if empty.
        """

        def work(place: str) -> str:
            hidden = not place.startswith(".git")
            found = [
                name
                for name in sorted(self.tree)
                if below(name, place) and not (hidden and is_made(name))
            ]
            if not found:
                raise ToolError(f"no folder {place!r}")
            return "\n".join(found)

        return self.attempt("list", path, work)

    def search(self, text: str, path: str = "") -> str:
        """Find the lines that hold a text, in the files of a folder or in one file.

        Args:
            text: What to look for, letter by letter.
            path: A folder or a file; the whole repository if empty.
        """

        def work(place: str) -> str:
            if not text or "\n" in text:
                raise ToolError("the text must be part of one line")
            found = [
                f"{name}:{number}: {line.strip()[:200]}"
                for name in sorted(self.tree)
                if below(name, place) and not is_made(name)
                for number, line in enumerate(decoded(self.tree[name]).split("\n"), 1)
                if text in line
            ]
            more = f"\n({len(found) - MATCHES} more)" if len(found) > MATCHES else ""
            return "\n".join(found[:MATCHES]) + more or "nothing found"

        return self.attempt("search", path, work)

    def read(self, path: str, first: int = 1, count: int = LINES) -> str:
        """Read lines of a file.

        Args:
            path: The file.
            first: The first line to show, from 1.
            count: How many lines to show.
        """

        def work(place: str) -> str:
            lines = decoded(self.file(place)).split("\n")
            begin = max(1, min(first, len(lines)))
            shown = lines[begin - 1 : begin - 1 + max(1, min(count, LINES))]
            numbered = [f"{begin + at:5d}  {line[:400]}" for at, line in enumerate(shown)]
            return "\n".join([f"{place}, {len(lines)} lines", *numbered])

        return self.attempt("read", path, work)

    def edit(self, path: str, old: str, new: str, line: int = 0) -> str:
        """Replace a text that is in a file, or begins in a line of it, exactly once; or make a new
        file.

        Args:
            path: The file.
            old: The text to replace, letter by letter; empty to make a file that is not there.
            new: What to put in its place.
            line: The line in which the old text begins, from 1; 0 to look for it in all of them.
        """

        def work(place: str) -> str:
            if not old and place not in self.tree:
                self.put(place, new.encode())
                return f"made {place}"
            self.put(place, replaced(self.file(place), old.encode(), new.encode(), line))
            return f"changed {place}"

        return self.attempt("edit", path, work)

    def run(self, command: str) -> str:
        """Run a shell command at the root of the repository, without any network.

        Args:
            command: The command, such as `python -m pytest tests -q`.
        """
        if self.over:
            return OVER
        self.history_read |= self.unfolded.work.history and bool(GIT.search(command))
        self.tests_run += runs_tests(command)
        shown = run_command(self.tree, command, needs=self.unfolded.needs, wall_s=COMMAND_S)
        self.tree = shown.tree
        self.note("run", shown.code == 0)
        ended = "took too long" if shown.code is None else f"exit code {shown.code}"
        return cut(f"{ended}\n{shown.output}", self.unfolded.work.shown)

    def submit(self) -> str:
        """Hand the work in; this ends the attempt."""
        self.submitted = True
        self.note("submit", True)
        return "submitted"

    def file(self, place: str) -> bytes:
        if place not in self.tree:
            raise ToolError(f"no file {place!r:.200}")
        return self.tree[place]

    def put(self, place: str, data: bytes) -> None:
        parts = place.split("/")
        odd = not place.isprintable() or any(part in ("", ".", "..", ".git") for part in parts)
        taken = any(name.startswith(f"{place}/") for name in self.tree) or any(
            "/".join(parts[:depth]) in self.tree for depth in range(1, len(parts))
        )
        if odd or taken or len(place) > 300 or max(map(len, parts)) > 200:
            raise ToolError(f"{place!r:.200} cannot be a file of this repository")
        if len(data) > LARGEST_FILE:
            raise ToolError(f"{len(data)} bytes; a file may have {LARGEST_FILE}")
        self.tree[place] = data


def runs_tests(command: str) -> bool:
    """Whether a command runs tests, as far as its words tell."""
    programs = (found[1] for found in PROGRAM.finditer(command))
    return bool(TESTING.search(command)) or any("test" in name for name in programs)


def below(name: str, place: str) -> bool:
    return not place or name == place or name.startswith(f"{place}/")


def replaced(data: bytes, old: bytes, new: bytes, line: int = 0) -> bytes:
    """A file with a text replaced that is in it exactly once, or that begins in a line exactly
    once."""
    low, high = 0, len(data)
    if line:
        lines = data.split(b"\n")
        if not 1 <= line <= len(lines):
            raise ToolError(f"there is no line {line}; the file has {len(lines)}")
        low = sum(len(one) + 1 for one in lines[: line - 1])
        high = low + len(lines[line - 1]) + 1  # with its end, which is all that an empty line has
    text = data[low : high + len(old) - 1]
    times = text.count(old) if old else 0
    if times != 1:
        reason = f"is there {times} times" if times else "is not there"
        where = f"line {line}" if line else "the file"
        raise ToolError(f"the old text {reason} in {where}; it must be there exactly once")
    at = low + text.index(old)
    return data[:at] + new + data[at + len(old) :]


def decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def cut(text: str, most: int) -> str:
    """The beginning and the end of a text that is too long."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n({len(text) - most} characters left out)\n{text[-half:]}"
