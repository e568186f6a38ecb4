"""The policy protocol: prompts in, completions out."""

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import NamedTuple, Protocol

from pydantic import Field

from coevolve.core.rollout import Message, Rollout, StopReason, Value
from coevolve.core.task import Task
from coevolve.harness.wording import Wording


class Sampling(Value):
    """How answers are drawn."""

    temperature: float = Field(default=1.0, ge=0)
    """0 is greedy."""
    max_tokens: int = Field(default=4_096, ge=1)
    """Tokens after which an answer is cut off."""
    seed: int = 0
    json_schema: str | None = None
    """A JSON schema, as JSON text, that answers must follow; scripts take no notice of it."""
    tools: str | None = Field(default=None, exclude_if=lambda tools: tools is None)
    """Functions, as JSON text, one of which is to be called: for servers that know tool calls,
    whose calls come back as the JSON object that others write."""


class Prompt(NamedTuple):
    """What a policy is asked. Only scripts look at the task; everything else sees the messages."""

    messages: tuple[Message, ...]
    task: Task | None = None
    sample: int = 0
    """Which of several attempts at the same prompt this is, from 0."""

    @property
    def going(self) -> bool:
        """Whether this is a dialogue that goes on: the policy has spoken already."""
        return any(message.role == "assistant" for message in self.messages)


class Completion(NamedTuple):
    """One answer."""

    text: str
    stop: StopReason = StopReason.END
    tokens: tuple[int, ...] | None = None
    """Token ids, where the policy tells them."""
    logprobs: tuple[float, ...] | None = None
    """Log-probability of each token under the distribution it was drawn from, in nats."""
    entropies: tuple[float, ...] | None = None
    """Entropy of the distribution each token was drawn from, in nats."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Also counted where the ids are not known; 0 for scripts, which have no tokens."""
    seconds: float = 0.0
    """Its share of the time that its call took; from a cache, how long it was waited for."""


class Policy(Protocol):
    """Anything that answers."""

    name: str

    def answer(self, prompts: list[Prompt], sampling: Sampling) -> list[Completion]:
        """One completion per prompt, in order; the same for the same prompts and sampling."""
        ...


def wording_of(policy: object, domain: str) -> Wording:
    """How a policy is to be asked; scripts, and models elsewhere, as the domain says."""
    find: Callable[[str], Wording] | None = getattr(policy, "wording", None)
    return find(domain) if find else Wording()


def tokens(answers: Iterable[Completion | Rollout]) -> int:
    """What was read and drawn for some answers."""
    return sum(one.prompt_tokens + one.completion_tokens for one in answers)


def turns(answers: Iterable[Completion]) -> tuple[tuple[int, int], ...]:
    """The same of each: read, and drawn."""
    return tuple((one.prompt_tokens, one.completion_tokens) for one in answers)


def used(policy: object) -> tuple[int, float]:
    """Tokens and money that a policy has taken so far; none where it keeps no account."""
    usage = getattr(policy, "usage", None)
    read, drawn = (getattr(usage, name, 0) for name in ("prompt_tokens", "completion_tokens"))
    return read + drawn, float(getattr(usage, "cost", 0.0))


def worth(policy: object, answers: Iterable[Completion]) -> float:
    """What some answers cost by a policy's prices, also those that were paid for before: a run that
    is resumed finds them in the cache, and must count the same."""
    read, written = getattr(policy, "prices", (0.0, 0.0))
    return sum(one.prompt_tokens * read + one.completion_tokens * written for one in answers) / 1e6


class Lazy:
    """A policy that is loaded when it is first asked: what is on disk needs no model."""

    def __init__(
        self, name: str, make: Callable[[], Policy], wording: Wording | None = None
    ) -> None:
        self.name, self.make, self.other = name, make, wording

    @cached_property
    def policy(self) -> Policy:
        return self.make()

    def wording(self, domain: str) -> Wording:
        """How it is asked: as it was taught, unless another wording is tried."""
        own = wording_of(self.policy, domain)
        return self.other.over(own) if self.other else own

    def answer(self, prompts: list[Prompt], sampling: Sampling) -> list[Completion]:
        return self.policy.answer(prompts, sampling)
