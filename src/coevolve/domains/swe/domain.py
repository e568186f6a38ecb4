"""Software engineering as a domain: faults in repositories, mended with tools in several turns."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from coevolve.core.errors import UserError
from coevolve.core.names import lookup
from coevolve.core.rollout import Message, Outcome
from coevolve.core.splits import Split, check_split
from coevolve.core.task import Task, whole_task
from coevolve.domains.base import Script, Statistic
from coevolve.domains.check import Counts
from coevolve.domains.knobs import Knobs, KnobSpace
from coevolve.domains.swe.draw import draw_svg, draw_text
from coevolve.domains.swe.episode import SweEpisode
from coevolve.domains.swe.generate import fingerprint, generate, make
from coevolve.domains.swe.judge import FAILURES
from coevolve.domains.swe.knobs import MOST_TURNS, SPACE
from coevolve.domains.swe.prompt import chat
from coevolve.domains.swe.repository import repository
from coevolve.domains.swe.scripts import PLAYERS, SCRIPTS, solution
from coevolve.domains.swe.source import shipped
from coevolve.domains.swe.statistics import measure
from coevolve.domains.swe.suite import benchmark
from coevolve.domains.swe.work import Work, check, work_of
from coevolve.domains.turns import Player
from coevolve.harness.check import checked

SETTING = "COEVOLVE_SWE_SOURCES"
"""Environment variable: sources to make tasks of, instead of the shipped ones, between spaces."""


class SweDomain:
    """Implements the `TurnDomain` protocol."""

    name: ClassVar[str] = "swe"
    summary: ClassVar[str] = "faults in real Python packages, mended with tools in several turns"
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
        return draw_text(task, None if text is None else self.verify(task, text))

    def picture(self, task: Task, text: str | None, path: Path) -> None:
        if path.suffix != ".svg":
            raise UserError(f"cannot draw {path}: the name must end in .svg")
        drawn = draw_svg(task, None if text is None else self.verify(task, text))
        try:
            path.write_text(drawn, encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror}") from None

    def load(self, data: Mapping[str, Any]) -> Task:
        """A whole task as `coevolve tasks generate` writes it; what follows is worked out anew."""
        given = whole_task(data, self.name)
        work = checked(Work, given.data, f"task {given.id}")
        check(work, repository(work.source))
        check_split(fingerprint(work), given.split, given.id)
        return make(work, given.seed).model_copy(update={"id": given.id})
