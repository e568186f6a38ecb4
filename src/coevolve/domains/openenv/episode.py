"""An episode at an OpenEnv server, as evaluation and training play it, and its words.

A server of ours takes and gives text. Any other declares its actions as a JSON schema: where they
have a single text field an answer is that field, else an answer must be the action as JSON.
"""

import json
from typing import TYPE_CHECKING, Any

from coevolve.core.errors import DomainError
from coevolve.core.rollout import Message, Outcome
from coevolve.core.task import Task
from coevolve.domains.openenv.connection import Play, Refused, Step
from coevolve.domains.simple import verdict
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
OWN = ("message", "final", "tokens")
"""Fields of an action of ours."""
ASIDE = ("metadata", "done", "reward")


class Answers:
    """How an answer becomes an action."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema
        fields = {k: v for k, v in schema.get("properties", {}).items() if k not in ASIDE}
        needed = [name for name in schema.get("required", []) if name not in ASIDE]
        self.own = set(OWN) <= set(fields)
        names = needed or list(fields)
        text = len(names) == 1 and fields.get(names[0], {}).get("type") == "string"
        self.field = names[0] if text else None

    def action(self, text: str) -> dict[str, Any] | None:
        """The action that an answer stands for, None where it stands for none."""
        if self.field is not None:
            return {self.field: text}
        try:
            found = json.loads(text.strip().removeprefix("```json").strip("`\n "))
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    def rules(self) -> str:
        """How to answer, for who is not told by the server."""
        if self.field is not None:
            return f"Answer with the {self.field} alone."
        return f"Answer with one JSON object that follows this schema: {json.dumps(self.schema)}"


def heard(observation: dict[str, Any]) -> str:
    """What an observation says: its one text, or all of it as JSON."""
    told = {name: value for name, value in observation.items() if name not in ASIDE}
    said = [value for value in told.values() if value not in ("", None, [], {})]
    if len(said) == 1 and isinstance(said[0], str):
        return said[0]
    return json.dumps(told, ensure_ascii=False, sort_keys=True)


def prompt(observation: dict[str, Any], summary: str, answers: Answers) -> tuple[Message, ...]:
    """The messages that an episode begins with."""
    if answers.own:
        return tuple(Message.model_validate(message) for message in observation["messages"])
    return (
        Message(role="system", content=f"{summary}\n{answers.rules()}".strip()),
        Message(role="user", content=heard(observation)),
    )


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
        reason = self.reason or FAILURES[failure]
        return verdict(None if valid else failure, reason, {"reward": total})
