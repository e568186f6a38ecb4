"""Scoring rollouts and writing them down while the GPU goes on: one file per step and process."""

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from coevolve.core.rollout import Message, Rollout
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.domains.turns import Episode, begin
from coevolve.engines.stage import components_of
from coevolve.evaluation.judge import each, judge, record
from coevolve.harness.reward import shaped
from coevolve.policies.base import Completion, Prompt
from coevolve.store.rollouts import write


class Attempt(NamedTuple):
    """An answer that was drawn in training, before it is scored."""

    prompt: Prompt
    completion: Completion
    turns: tuple[Message, ...] = ()
    """All turns after the prompt, for tasks of several turns."""
    episode: Episode | None = None


class Recorder:
    """Turns attempts into rollouts; what is recorded is what the reward was computed from."""

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
        self, attempts: list[Attempt], step: int, groups: list[int], short: float
    ) -> list[Rollout]:
        """The rollouts of one step, on their way to disk, each with the number of its group."""
        found = each(self.domains.values(), lambda attempt: self.judged(attempt, step), attempts)
        rewards = shaped(self.shape, found, components_of(self.domains), short)
        rollouts = [
            rollout.model_copy(update={"shaped": float(reward), "group": f"{step}/{group}"})
            for rollout, reward, group in zip(found, rewards, groups, strict=True)
        ]
        path = self.folder / f"step-{step:06d}-{self.process}.parquet"
        self.pending.append(self.writer.submit(write, rollouts, path))
        return rollouts

    def judged(self, attempt: Attempt, step: int) -> Rollout:
        prompt, completion = attempt.prompt, attempt.completion
        if attempt.episode is None:
            assert prompt.task is not None
            domain = self.domains[prompt.task.domain]
            return judge(domain, prompt, completion, self.policy, step)
        outcome = attempt.episode.outcome(completion.text, completion.completion_tokens)
        return record(prompt, completion, attempt.turns, outcome, self.policy, step)

    def flush(self) -> None:
        """Wait until everything is on disk; raises what went wrong there."""
        pending, self.pending = self.pending, []
        for future in pending:
            future.result()

    def close(self) -> None:
        self.writer.shutdown(wait=True)
