"""An episode at an OpenEnv server, as evaluation and training play it, and its words.

A server of ours takes and gives text. Any other declares its actions as a JSON schema: where they
have a single text field an answer is that field, else an answer must be the action as JSON.
"""

import json
import math
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from coevolve.core.errors import DomainError
from coevolve.core.rollout import Outcome
from coevolve.core.task import Task
from coevolve.domains.openenv.connection import Play, Refused
from coevolve.domains.openenv.declaration import ActionSchema
from coevolve.domains.simple import verdict

if TYPE_CHECKING:
    from coevolve.domains.openenv.domain import ServedDomain

FAILURES = {
    "format": "an answer that is not an action of the server",
    "refused": "an action that the server refused",
    "unfinished": "the episode was not over when the policy stopped",
    "wrong": "less than the full reward",
}
"""Of a server that names none itself."""
SAID, OUTCOME = TypeAdapter(str), TypeAdapter(Outcome)
ASIDE = ("metadata", "done", "reward")


class Answers:
    """How an answer becomes an action."""

    def __init__(self, schema: ActionSchema) -> None:
        self.schema = schema.model_dump(exclude_unset=True)
        fields = {k: v for k, v in schema.properties.items() if k not in ASIDE}
        needed = [name for name in schema.required if name not in ASIDE]
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


class ServedEpisode:
    """Implements the `Episode` protocol."""

    def __init__(self, domain: "ServedDomain", task: Task) -> None:
        self.domain, self.task = domain, task
        self.play = Play(domain.lines, task.data["reset"])
        self.failure = self.reason = ""
        if domain.shown(self.play.begin().observation) != task.data["messages"]:
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
            step = self.play.step(action)
        except Refused as error:
            self.stop("refused", str(error))
            return None
        if self.domain.own:
            said = self.domain.told(SAID, step.observation.get("message"))
            return None if step.done and not said else said
        return None if step.done else heard(step.observation)

    def stop(self, failure: str, reason: str) -> None:
        self.failure, self.reason = failure, reason
        self.play.end()

    def outcome(self, text: str, tokens: int | None = None) -> Outcome:
        """The server's verdict, or what follows from its rewards."""
        if self.domain.own:
            if not self.play.over:
                self.play.step({"message": text, "final": True, "tokens": tokens})
            found = self.domain.told(OUTCOME, self.play.steps[-1].observation.get("outcome"))
            known = [found.reward, *found.components.values()]
            if not all(map(math.isfinite, known)) or found.failure not in {
                None, *self.domain.failures,
            }:  # fmt: skip
                raise DomainError(
                    f"{self.domain.text} gave a verdict that cannot be read: {found!s:.200}"
                )
            return found
        self.play.end()
        rewards = [step.reward or 0.0 for step in self.play.steps]
        total = 0.0 if self.failure else sum(rewards)
        valid = not self.failure and total >= self.domain.full_reward
        failure = self.failure or ("wrong" if self.play.over else "unfinished")
        reason = self.reason or FAILURES[failure]
        return verdict(None if valid else failure, reason, {"reward": total})
