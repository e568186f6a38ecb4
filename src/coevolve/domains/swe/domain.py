"""Software engineering as a domain: faults in repositories, mended with tools in several turns."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any, ClassVar

from coevolve.core.errors import DomainError, UserError
from coevolve.core.names import lookup
from coevolve.core.rollout import Message, Outcome
from coevolve.core.splits import Split, check_split
from coevolve.core.task import Task, whole_task
from coevolve.domains.base import Script, Statistic
from coevolve.domains.check import Counts
from coevolve.domains.knobs import Knobs, KnobSpace
from coevolve.domains.lines import draw_file, svg_of
from coevolve.domains.swe.canary import sound
from coevolve.domains.swe.commit import Commit, Row, mended
from coevolve.domains.swe.episode import SweEpisode
from coevolve.domains.swe.generate import benchmark, fingerprint, generate, make, measure
from coevolve.domains.swe.judge import FAILURES
from coevolve.domains.swe.knobs import MOST_TURNS, SPACE
from coevolve.domains.swe.needs import Wheel
from coevolve.domains.swe.prompt import chat
from coevolve.domains.swe.scripts import PLAYERS, SCRIPTS, solution
from coevolve.domains.swe.source import shipped
from coevolve.domains.swe.work import Work, check, known_of, unfold, work_of
from coevolve.domains.turns import Player
from coevolve.harness.check import checked

SETTING = "COEVOLVE_SWE_SOURCES"
"""Environment variable: sources to make tasks of, instead of the shipped ones, between spaces."""


class SweDomain:
    """Implements the `TurnDomain` protocol."""

    name: ClassVar[str] = "swe"
    summary: ClassVar[str] = (
        "faults in real Python packages, to be repaired with tools, over several turns"
    )
    space: KnobSpace = SPACE
    failures: ClassVar[Mapping[str, str]] = FAILURES
    components: ClassVar[Mapping[str, str]] = {
        "tests": "share of the failing tests that pass now, less the share of others that broke",
        "solved": "1 if all hidden tests pass",
    }
    buckets: ClassVar[tuple[str, ...]] = ("package", "size", "fault", "faults", "hint", "history")
    styles: ClassVar[tuple[str, ...]] = ("chat",)
    panels: ClassVar[tuple[str, ...]] = ("fault", "size", "faults", "history")
    full_reward: ClassVar[float] = 1.0
    scripts: ClassVar[Mapping[str, Script]] = SCRIPTS
    players: ClassVar[Mapping[str, Player]] = PLAYERS
    suites: ClassVar[Mapping[str, Callable[[], Iterator[Task]]]] = {"benchmark": benchmark}
    turns: ClassVar[int] = MOST_TURNS
    tools: ClassVar[tuple[str, ...]] = ()
    counts: ClassVar[Counts] = Counts(sample=10, many=30, split=15, pushed=16)

    def __init__(self, sources: Sequence[str] = ()) -> None:
        """`sources` are NAME==VERSION or folders of git repositories; the shipped ones if none."""
        asked = tuple(sources) or tuple(os.environ.get(SETTING, "").split())
        self.sources = asked or tuple(source.name for source in shipped())

    def generate(
        self, knobs: Knobs, count: int, seed: int, split: Split, workers: int = 1
    ) -> Iterator[Task]:
        return generate(knobs, count, seed, split, workers, self.sources)

    def clean(self) -> "SweDomain":
        """Without histories: the mending commit cannot be looked up."""
        return WithoutHistory(self.sources)

    def prompt(self, task: Task, style: str = "") -> tuple[Message, ...]:
        lookup("prompt style", style or self.styles[0], dict.fromkeys(self.styles))
        return chat(task)

    def begin(self, task: Task) -> SweEpisode:
        return SweEpisode(task)

    def limit(self, task: Task) -> int:
        """Most turns of the policy in an episode of this task."""
        return min(self.turns, work_of(task).turns)

    def verify(self, task: Task, text: str, tokens: int | None = None) -> Outcome:
        """The verdict on work that is done in a single turn."""
        episode = self.begin(task)
        episode.reply(text)
        return episode.outcome(text, tokens)

    def oracle(self, task: Task, style: str = "") -> str:
        return solution(task)

    def fingerprint(self, task: Task) -> int:
        return fingerprint(work_of(task))

    def statistics(self, tasks: Sequence[Task]) -> dict[str, Statistic]:
        return measure(tasks)

    def solve(self, data: Mapping[str, Any]) -> dict[str, Any]:
        task = self.load(data)
        outcome = self.verify(task, self.oracle(task))
        names = ("fixed", "fail_to_pass", "lost", "pass_to_pass")
        return {**{name: outcome.details[name] for name in names}, "solved": outcome.valid}

    def draw(self, task: Task, text: str | None = None) -> str:
        return "\n".join(self.lines(task, text)) + "\n"

    def picture(self, task: Task, text: str | None, path: Path) -> None:
        draw_file(path, {".svg": lambda: svg_of(self.lines(task, text))})

    def lines(self, task: Task, text: str | None) -> Iterator[str]:
        return shown(task, None if text is None else self.verify(task, text))

    def load(self, data: Mapping[str, Any]) -> Task:
        """A whole task as `coevolve tasks generate` writes it, or a row of SWE-bench's format; what
        follows is worked out anew."""
        if "base_commit" in data:
            row = checked(Row, data, str(data.get("instance_id", "a row")))
            try:
                return self.load_row(row)
            except DomainError as error:
                raise DomainError(f"{row.instance_id} is refused: {error}") from None
        given = whole_task(data, self.name)
        work = checked(Work, given.data, f"task {given.id}")
        check(work, known_of(work))
        check_split(fingerprint(work), given.split, given.id)
        return make(work, given.seed, given.id)

    def load_row(self, row: Row) -> Task:
        """The task of a real commit; refused unless its tests show what the row says."""
        commit = Commit(
            base=row.base_commit,
            patch=row.patch,
            test_patch=row.test_patch,
            keep=row.PASS_TO_PASS,
            statement=row.problem_statement,
            wheels=tuple(
                checked(Wheel, {"file": file, "sha256": mark}, f"{row.instance_id}: a wheel")
                for file, mark in row.wheels.items()
            ),
        )
        folder = folder_of(row.repo, self.sources)
        known = mended(folder, commit, row.FAIL_TO_PASS)
        if not sound(known):
            raise DomainError("none of its tests can be reversed, so results could be forged")
        work = Work(
            source=folder,
            content=known.content,
            faults=(),
            commit=commit,
            fail=row.FAIL_TO_PASS,
            seen=(),
            hint=0,
            turns=row.turns,
            history=False,
        )
        return make(work, 0, row.instance_id)


def folder_of(repo: str, sources: tuple[str, ...]) -> str:
    """The folder of the repository that a row names."""
    name = repo.rstrip("/").rpartition("/")[2]
    for place in (repo, *(word for word in sources if Path(word).name == name)):
        if Path(place).expanduser().is_dir():
            return str(Path(place).expanduser().resolve())
    raise UserError(
        f"no repository '{repo}': give its folder, or put a folder called {name} into {SETTING}"
    )


class WithoutHistory(SweDomain):
    """The same, whatever knobs say of histories."""

    def generate(
        self, knobs: Knobs, count: int, seed: int, split: Split, workers: int = 1
    ) -> Iterator[Task]:
        without = self.space.project({"history.share": 0.0}, base=knobs)
        return super().generate(without, count, seed, split, workers)


def shown(task: Task, outcome: Outcome | None) -> Iterator[str]:
    """The issue, what was broken, and the verdict."""
    unfolded = unfold(task)
    yield from task.data["issue"].split("\n")
    yield ""
    yield f"{len(unfolded.work.fail)} hidden tests of {unfolded.total} fail; what repairs it:"
    for path in (*unfolded.mended, *unfolded.gone):
        trees = (unfolded.given, unfolded.mended)
        old, new = (tree.get(path, b"").decode().split("\n") for tree in trees)
        yield from unified_diff(old, new, path, path, lineterm="", n=1)
    if outcome is not None:
        told = outcome.details
        yield ""
        for call in told["calls"]:
            mark = "+" if call["ok"] else "-"
            yield f"{mark} turn {call['turn']}: {call['tool']} {call.get('path', '')}".rstrip()
        yield f"{told['fixed']} of {told['fail_to_pass']} fixed, {told['lost']} lost"
        yield f"{'+ solved' if outcome.valid else '- ' + str(outcome.failure)}"
