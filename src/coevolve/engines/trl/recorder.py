"""Scoring rollouts and writing them down while the GPU goes on: one file per step and process."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from coevolve.core.rollout import Message, Outcome, StopReason
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.domains.capture import judged
from coevolve.domains.turns import Episode, begin
from coevolve.engines.stage import components_of
from coevolve.evaluation.judge import each, record, verdicts
from coevolve.evaluation.shape import Shaped, shaped, weighed
from coevolve.harness.expression import Numbers
from coevolve.harness.filters import Filter
from coevolve.harness.reward import SHORT
from coevolve.policies.base import Completion, Prompt
from coevolve.store.rollouts import write
from coevolve.store.shards import step_file


class Attempt(NamedTuple):
    """An answer that was drawn in training, before it is scored."""

    prompt: Prompt
    completion: Completion
    turns: tuple[Message, ...]
    """All turns after the prompt."""
    episode: Episode | None = None
    """For tasks of several turns."""

    @property
    def messages(self) -> tuple[Message, ...]:
        return (*self.prompt.messages, *self.turns)


class Scored(NamedTuple):
    """An attempt with its verdict: all that training looks at."""

    outcome: Outcome
    stop: StopReason
    completion_tokens: int
    messages: tuple[Message, ...]
    shaped: float = 0.0
    """The reward that training uses."""


@dataclass
class Tried:
    """All that a process drew for a step, in order."""

    attempts: list[Attempt] = field(default_factory=list)
    scored: list[Scored] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    """The number of each one's group in the step."""
    failed: int = 0
    """How often the harness's reward failed."""
    drawing_s: float = 0.0


class Recorder:
    """Judges and records attempts; what is recorded is what the reward was computed from."""

    def __init__(
        self, domains: dict[str, Domain], folder: Path, policy: str, process: int, shape: str
    ) -> None:
        self.domains, self.folder, self.policy, self.process = domains, folder, policy, process
        self.shape = shape
        self.writer = ThreadPoolExecutor(1, "evidence")
        self.pending: list[Future[None]] = []

    def begin(self, task: Task) -> tuple[Episode, int]:
        """A fresh episode and the most turns it may take."""
        return begin(self.domains[task.domain], task)

    def score(
        self, tried: Tried, attempts: list[Attempt], groups: list[int], short: float = SHORT
    ) -> None:
        """Add attempts, each in the group of that number, with what came of them."""
        found = [
            Scored(outcome, one.completion.stop, one.completion.completion_tokens, one.messages)
            for one, outcome in zip(attempts, self.outcomes(attempts), strict=True)
        ]
        rewards = shaped(self.shape, found, components_of(self.domains), short)
        pairs = zip(found, rewards.values.tolist(), strict=True)
        tried.scored += [Scored(*one[:4], reward) for one, reward in pairs]
        tried.attempts += attempts
        tried.groups += groups
        tried.failed += len(rewards.failures)

    def record(self, tried: Tried, step: int) -> None:
        """Have all of a step written down; rollouts are made of them on their way to disk."""
        self.pending.append(self.writer.submit(self.keep, tried, step))

    def weighed(
        self, filters: tuple[Filter, ...], scored: list[Scored], short: float,
        groups: dict[str, Numbers],
    ) -> Shaped:  # fmt: skip
        """How much each is to teach, by the functions among filters."""
        return weighed(filters, scored, components_of(self.domains), short, groups)

    def outcomes(self, attempts: list[Attempt]) -> list[Outcome]:
        """Verdicts in order, all single answers of a domain together."""
        found: dict[int, Outcome] = {}
        alone: dict[str, list[int]] = {}
        for place, attempt in enumerate(attempts):
            task = attempt.prompt.task
            if attempt.episode is None and task is not None:
                alone.setdefault(task.domain, []).append(place)
        for name, places in alone.items():
            prompts = [attempts[place].prompt for place in places]
            completions = [attempts[place].completion for place in places]
            verdict = verdicts(self.domains[name], prompts, completions)
            found.update(zip(places, verdict, strict=True))
        played = [place for place in range(len(attempts)) if place not in found]
        ends = each(self.domains.values(), lambda place: self.ended(attempts[place]), played)
        found.update(zip(played, ends, strict=True))
        return [found[place] for place in range(len(attempts))]

    def ended(self, attempt: Attempt) -> Outcome:
        """The verdict on an episode."""
        task, episode = attempt.prompt.task, attempt.episode
        assert task is not None
        assert episode is not None
        text, tokens = attempt.completion.text, attempt.completion.completion_tokens
        work = partial(episode.outcome, text, tokens)
        return judged(self.domains[task.domain], task, text, tokens, work)

    def keep(self, tried: Tried, step: int) -> None:
        """Write the rollouts of a step."""
        rollouts = [
            record(
                attempt.prompt, attempt.completion, attempt.turns, one.outcome, self.policy, step,
                one.shaped, f"{step}/{group}",
            )
            for attempt, one, group in zip(tried.attempts, tried.scored, tried.groups, strict=True)
        ]  # fmt: skip
        write(rollouts, step_file(self.folder, step, self.process))

    def flush(self) -> None:
        """Wait until everything is on disk; raises what went wrong there."""
        pending, self.pending = self.pending, []
        for future in pending:
            future.result()

    def close(self) -> None:
        self.writer.shutdown(wait=True)
