"""A domain as an OpenEnv environment: a seed, a split and knobs are the task, text the action.

Invariant: every verdict is the domain's, and what is shown before the verdict holds no solution.
"""

import secrets
import threading
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State
from pydantic import Field

from coevolve import __version__
from coevolve.core.errors import UserError
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.domains.openenv.declaration import Reset
from coevolve.domains.turns import Episode, begin, of_text
from coevolve.harness.check import checked

SEEDS = 2**31
KEPT = 4_096
"""Tasks that need not be made again: most are begun more than once."""


class TextAction(Action):
    """What the policy says."""

    message: str = Field(description="What the policy says, as it stands.")
    final: bool = Field(False, description="Ask for the verdict now: the policy says no more.")
    tokens: int | None = Field(None, description="Tokens of all turns, where they were counted.")


class TextObservation(Observation):
    """What the policy hears; `outcome` stands only in the last one of an episode."""

    message: str = Field("", description="What is said to the policy: the prompt, or the reply.")
    messages: list[dict[str, str]] = Field(
        default_factory=list, description="The prompt as messages with a role; only after reset."
    )
    task: str = Field("", description="The task's id.")
    split: str = Field("", description="train, dev, gate or test: where the task belongs.")
    fingerprint: str = Field("", description="Equal for tasks that are equal up to symmetry.")
    bucket: dict[str, Any] = Field(default_factory=dict, description="Labels to group results by.")
    turns: int = Field(1, description="Most turns of the policy.")
    outcome: dict[str, Any] | None = Field(None, description="The verdict, once there is one.")


class TextState(State):
    """Where the episode stands."""

    domain: str = ""
    task: str = ""
    turns: int = 1
    over: bool = True


class Serving:
    """A domain that several sessions share: one at a time, unless it says that it bears more."""

    def __init__(self, domain: Domain) -> None:
        self.domain = of_text(domain)
        self.alone: AbstractContextManager[Any] = (
            nullcontext() if getattr(domain, "waits", False) else threading.Lock()
        )
        self.made = lru_cache(KEPT)(self.make)

    def task(self, reset: Reset) -> Task:
        """The task that a seed, a split and knobs stand for."""
        with self.alone:
            return self.made(reset.seed, reset.split, tuple(sorted(reset.knobs.items())))

    def make(self, seed: int, split: Split, knobs: tuple[tuple[str, float], ...]) -> Task:
        parsed = self.domain.space.parse(dict(knobs))
        return next(iter(self.domain.generate(parsed, 1, seed, split)))


class DomainEnvironment(Environment[TextAction, TextObservation, TextState]):
    """One session: an episode at a time."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    episode: Episode

    def __init__(self, serving: Serving) -> None:
        super().__init__()
        self.serving, self.domain = serving, serving.domain
        self.known = TextState(domain=self.domain.name)

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **arguments: Any
    ) -> TextObservation:
        """Begin the task that `seed`, `split` (train if not given) and `knobs` stand for."""
        chosen = secrets.randbelow(SEEDS) if seed is None else seed
        wanted = checked(Reset, {**arguments, "seed": chosen}, "reset")
        task = self.serving.task(wanted)
        with self.serving.alone:
            messages = self.domain.prompt(task, wanted.style)
            mark = self.domain.fingerprint(task)
            self.episode, limit = begin(self.domain, task)
        self.known = TextState(
            episode_id=episode_id or str(uuid4()), domain=self.domain.name, task=task.id,
            turns=limit, over=False,
        )  # fmt: skip
        return TextObservation(
            message="\n\n".join(message.content for message in messages),
            messages=[message.model_dump() for message in messages],
            task=task.id, split=task.split.value, fingerprint=str(mark),
            bucket=dict(task.bucket), turns=limit,
        )  # fmt: skip

    def step(self, action: TextAction, timeout_s: float | None = None, **_: Any) -> TextObservation:
        """Say something: the reply, and the verdict once the episode is over."""
        if self.known.over:
            raise UserError("there is no episode to step in: reset first, in the same session")
        self.known.step_count += 1
        task, turns = self.known.task, self.known.turns
        with self.serving.alone:
            reply = None if action.final else self.episode.reply(action.message)
            if reply is not None and self.known.step_count < turns:
                return TextObservation(message=reply, task=task, turns=turns, reward=0)
            outcome = self.episode.outcome(action.message, action.tokens)
        self.known.over = True
        return TextObservation(
            message=reply or "", task=task, turns=turns, done=True,
            reward=outcome.reward, outcome=outcome.model_dump(mode="json"),
        )  # fmt: skip

    @property
    def state(self) -> TextState:
        return self.known

    def get_metadata(self) -> EnvironmentMetadata:
        return EnvironmentMetadata(
            name=self.domain.name, description=self.domain.summary, version=__version__
        )
