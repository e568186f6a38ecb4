"""What a server says as text for a policy, and what a policy says as an action for a server.

A server of ours takes and gives text. Any other declares its actions as a JSON schema: where they
have a single text field an answer is that field, else an answer must be the action as JSON.
"""

import json
from typing import Any

from coevolve.core.rollout import Message

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
