"""The policy protocol: prompts in, completions out."""

from typing import NamedTuple, Protocol

from pydantic import Field

from coevolve.core.rollout import Message, StopReason, Value
from coevolve.core.task import Task


class Sampling(Value):
    """How answers are drawn."""

    temperature: float = Field(default=1.0, ge=0)
    """0 is greedy."""
    max_tokens: int = Field(default=4_096, ge=1)
    """Tokens after which an answer is cut off."""
    seed: int = 0


class Prompt(NamedTuple):
    """What a policy is asked. Only scripts look at the task; everything else sees the messages."""

    messages: tuple[Message, ...]
    task: Task
    sample: int = 0
    """Which of several attempts at the same task this is, from 0."""


class Completion(Value):
    """One answer."""

    text: str
    stop: StopReason = StopReason.END
    tokens: tuple[int, ...] | None = None
    """Token ids, where the policy has tokens; scripts have none."""
    logprobs: tuple[float, ...] | None = None
    seconds: float = 0.0


class Policy(Protocol):
    """Anything that answers."""

    name: str

    def answer(self, prompts: list[Prompt], sampling: Sampling) -> list[Completion]:
        """One completion per prompt, in order; the same for the same prompts and sampling."""
        ...
