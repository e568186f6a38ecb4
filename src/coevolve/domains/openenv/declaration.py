"""What a server of ours says beside OpenEnv's own messages; both sides agree on it here.

A server that knows nothing of this is still a domain: it has no knobs and tells no solutions.
"""

import os
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from coevolve.core.rollout import Message, Value
from coevolve.core.splits import Split
from coevolve.core.task import Label
from coevolve.domains.base import Domain
from coevolve.domains.knobs import Knob
from coevolve.domains.turns import has_turns, players

DECLARATION, KNOBS, SCRIPT, STATISTICS, USAGE = (
    "/domain", "/knobs", "/script", "/statistics", "/usage",
)  # fmt: skip
"""Our own routes: what is declared, mending knobs, scripts, statistics, resources in use."""
LONGEST_NAME, LONGEST_SUMMARY, MOST_TURNS = 200, 4_000, 10_000
Number = Annotated[float, Field(allow_inf_nan=False)]
TOKEN = "COEVOLVE_ORACLE_TOKEN"
"""Environment variable of both sides: who knows it may ask a server for its scripts' answers."""


class Resources(Value):
    """What an episode may take."""

    memory_mb: int = 4_096
    """Of the server with everything in it."""
    episode_timeout_s: float = 60.0


class ActionSchema(BaseModel):
    """The part of a JSON schema of actions that is looked at; the rest is shown."""

    model_config = ConfigDict(extra="allow")
    properties: dict[str, dict[str, Any]] = {}
    required: tuple[str, ...] = ()


class Mended(Value):
    """What a server of ours has against some knobs, and the nearest that it takes."""

    problem: str | None
    nearest: dict[str, Number]


class First(BaseModel):
    """How an episode at a server of ours begins, as far as it is the task."""

    messages: tuple[Message, ...] = Field(min_length=1)
    bucket: dict[str, Label]
    fingerprint: str = Field(pattern=r"^[0-9]{1,20}$")
    turns: int = Field(ge=1, le=MOST_TURNS)


class Declaration(Value):
    """A domain as its server describes it."""

    name: str = Field(min_length=1, max_length=LONGEST_NAME)
    summary: str = Field(max_length=LONGEST_SUMMARY)
    knobs: tuple[Knob, ...] = ()
    failures: dict[str, str]
    components: dict[str, str]
    buckets: tuple[str, ...] = ()
    panels: tuple[str, ...] = ()
    styles: tuple[str, ...] = ("text",)
    full_reward: Number = 1.0
    turns: int = Field(default=1, ge=1, le=MOST_TURNS)
    """Most turns of the policy; 1 where the first answer ends the episode."""
    scripts: tuple[str, ...] = ()
    """Scripted policies that the server can play for who knows its token."""
    players: tuple[str, ...] = ()
    """Those among them that hear what was said before their turn."""
    counts: tuple[int, int, int, int] | None = None
    """How many tasks the conformance suite should look at."""
    resources: Resources = Resources()


class Reset(Value):
    """What a server of ours takes when an episode begins; together it is the task."""

    seed: int = 0
    split: Split = Split.TRAIN
    knobs: dict[str, float] = {}
    style: str = ""


def declare(domain: Domain, resources: Resources) -> Declaration:
    counts: tuple[int, int, int, int] | None = getattr(domain, "counts", None)
    return Declaration(
        name=domain.name,
        summary=domain.summary,
        knobs=tuple(domain.space.knobs.values()),
        failures=dict(domain.failures),
        components=dict(domain.components),
        buckets=tuple(domain.buckets),
        panels=tuple(domain.panels),
        styles=tuple(domain.styles),
        full_reward=domain.full_reward,
        turns=domain.turns if has_turns(domain) else 1,
        scripts=tuple(domain.scripts),
        players=tuple(players(domain)),
        counts=tuple(counts) if counts else None,  # type: ignore[arg-type]
        resources=resources,
    )


def token() -> str:
    return os.environ.get(TOKEN, "")
