"""An episode at an OpenEnv server, as evaluation and training play it."""

from typing import TYPE_CHECKING, Any

from coevolve.core.errors import DomainError
from coevolve.core.rollout import Outcome
from coevolve.core.task import Task
from coevolve.domains.openenv.connection import Play, Refused, Step
from coevolve.domains.openenv.text import heard, prompt
from coevolve.harness.check import checked

if TYPE_CHECKING:
    from coevolve.domains.openenv.domain import ServedDomain

FAILURES = {
    "format": "an answer that is no action of the server",
    "refused": "an action that the server refused",
    "unfinished": "the episode was not over when the policy stopped",
    "wrong": "less than the full reward",
}
"""Of a server that names none itself."""


class ServedEpisode:
    """Implements the `Episode` protocol."""

    def __init__(self, domain: "ServedDomain", task: Task) -> None:
        self.domain, self.task = domain, task
        self.play = Play(domain.lines, task.data["reset"])
        self.last: Step | None = None
        self.failure = ""
        self.reason = ""
        first = self.play.begin().observation
        shown = [m.model_dump() for m in prompt(first, domain.summary, domain.answers)]
        if shown != task.data["messages"]:
            self.play.end()
            raise DomainError(f"{domain.text} shows another task for the seed of {task.id}")

    def reply(self, text: str, tokens: int | None = None) -> str | None:
        """What the server says to a turn; None ends the episode."""
        action = self.domain.answers.action(text)
        if action is None:
            self.stop("format", FAILURES["format"])
            return None
        if self.domain.own and tokens is not None:
            action["tokens"] = tokens
        try:
            self.last = self.play.step(action)
        except Refused as error:
            self.stop("refused", str(error))
            return None
        said = heard(self.last.observation)
        if self.domain.own:
            said = self.last.observation["message"]
        return None if self.last.done and not (self.domain.own and said) else said

    def stop(self, failure: str, reason: str) -> None:
        self.failure, self.reason = failure, reason
        self.play.end()

    def outcome(self, text: str, tokens: int | None = None) -> Outcome:
        """The server's verdict, or what follows from its rewards."""
        if not self.domain.own:
            self.play.end()
            return self.judged()
        if self.last is None or not self.last.done:
            self.last = self.play.step({"message": text, "final": True, "tokens": tokens})
        return checked(Outcome, self.last.observation["outcome"], f"{self.domain.text} outcome")

    def judged(self) -> Outcome:
        """The verdict where there are only rewards: all of it, or a failure."""
        rewards = [float(step.reward or 0) for step in self.play.steps]
        total = 0.0 if self.failure else sum(rewards)
        valid = not self.failure and total >= self.domain.full_reward
        over = self.last is not None and self.last.done
        failure = self.failure or ("wrong" if over else "unfinished")
        details: dict[str, Any] = {"reason": self.reason or FAILURES[failure]}
        return Outcome(
            valid=valid,
            optimal=valid,
            reward=total,
            components={"reward": total},
            failure=None if valid else failure,
            details={} if valid else details,
        )
