"""What a server of ours says beside OpenEnv's own messages; both sides agree on it here.

A server that knows nothing of this is still a domain: it has no knobs and tells no solutions.
"""

import os

from coevolve.core.rollout import Value
from coevolve.core.splits import Split
from coevolve.domains.base import Domain
from coevolve.domains.knobs import Knob
from coevolve.domains.turns import has_turns, players

DECLARATION, KNOBS, SCRIPT, STATISTICS, USAGE = (
    "/domain", "/knobs", "/script", "/statistics", "/usage",
)  # fmt: skip
"""Our own routes: what is declared, mending knobs, scripts, statistics, resources in use."""
TOKEN = "COEVOLVE_ORACLE_TOKEN"
"""Environment variable of both sides: who knows it may ask a server for its scripts' answers."""


class Resources(Value):
    """What an episode may take."""

    memory_mb: int = 4_096
    """Of the server with everything in it."""
    episode_timeout_s: float = 60.0


class Declaration(Value):
    """A domain as its server describes it."""

    name: str
    summary: str
    knobs: tuple[Knob, ...] = ()
    failures: dict[str, str]
    components: dict[str, str]
    buckets: tuple[str, ...] = ()
    panels: tuple[str, ...] = ()
    styles: tuple[str, ...] = ("text",)
    full_reward: float = 1.0
    turns: int = 1
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
