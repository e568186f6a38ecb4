"""What came of an attempt: messages, outcome, rollout. A failed rollout is data."""

from enum import StrEnum
from functools import cache
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict

from coevolve.core.splits import Split
from coevolve.core.task import Label

JUDGE_ERROR = "judge_error"
"""The failure class of answers that could not be judged; every domain has it."""


class Value(BaseModel):
    """Base of the immutable records below."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def trusted(cls, **values: Any) -> Self:
        """A record of all its fields, in their order, none of which comes from outside.

        pydantic's `model_construct` without its look at every field, which takes ten times as long.
        """
        made = cls.__new__(cls)
        object.__setattr__(made, "__dict__", values)
        object.__setattr__(made, "__pydantic_fields_set__", fields_of(cls))
        object.__setattr__(made, "__pydantic_extra__", None)
        object.__setattr__(made, "__pydantic_private__", None)
        return made


@cache
def fields_of(kind: type[Value]) -> set[str]:
    """The names of all fields; nobody adds to it, for records are frozen."""
    return set(kind.model_fields)


class StopReason(StrEnum):
    """Why an answer ended."""

    END = "end"
    """The policy finished by itself."""
    LENGTH = "length"
    """The token limit cut it off."""
    TURNS = "turns"
    """The turn limit of a multi-turn task was reached."""
    TIMEOUT = "timeout"
    """It took longer than allowed."""


class Message(Value):
    role: Literal["system", "user", "assistant", "tool"]
    content: str


class Outcome(Value):
    """The verdict on one answer."""

    valid: bool
    """Every hard requirement of the task holds."""
    optimal: bool
    """Valid and as good as the best known answer."""
    reward: float
    """The sum that training uses, before any harness reshapes it."""
    components: dict[str, float]
    """Named parts of the reward."""
    failure: str | None
    """The failure class, one of the domain's or `judge_error`, or None for a valid answer."""
    details: dict[str, Any] = {}
    """Where and how it failed, for people and diagnostics."""


class Rollout(Value):
    """One attempt at one task."""

    task_id: str
    domain: str
    split: Split
    bucket: dict[str, Label]
    messages: tuple[Message, ...]
    """The prompt and everything after it, in order."""
    outcome: Outcome
    shaped: float | None = None
    """What training made of the reward; None outside training."""
    stop: StopReason
    sample: int
    """Which of several attempts at the same task this is, from 0."""
    policy: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    mean_logprob: float | None = None
    """Mean log-probability of the sampled tokens in nats, where the policy reports it."""
    min_logprob: float | None = None
    """Of the least likely token."""
    entropy: float | None = None
    """Mean entropy of the distributions the tokens were drawn from, in nats."""
    seconds: float = 0.0
    """Wall time spent on the answer."""
    step: int = -1
    """The step it was drawn for, from 0; -1 outside training."""
    group: str = ""
    """Rollouts with the same name here are compared with each other in training."""
