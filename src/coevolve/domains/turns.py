"""What a domain offers beside the domain protocol when its tasks are worked on in several turns.

Two more things are taken where a domain has them: `limit(task)`, the most turns for one task (with
tools the same for all tasks of a stage), and `players`, scripted policies that hear what was said
before their turn.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar, NamedTuple, Protocol, TypeGuard

from coevolve.core.errors import UserError
from coevolve.core.rollout import Message, Outcome
from coevolve.core.seeds import derive
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.domains.capture import Captured

Player = Callable[[Task, random.Random, tuple[Message, ...]], str]
"""Takes the next turn, knowing all turns before it."""


class Episode(Protocol):
    """One attempt at a task, with whatever the policy has changed so far.

    The methods that the domain names in `tools` may be called by the policy; each takes and
    returns text or numbers and explains itself in a Google-style docstring.
    """

    def reply(self, text: str) -> str | None:
        """What the environment answers to a turn of plain text; None ends the episode."""
        ...

    def outcome(self, text: str, tokens: int | None = None) -> Outcome:
        """The verdict, when the policy has said `text` last and used so many tokens in all."""
        ...


class TurnDomain(Domain, Protocol):
    """A domain of episodes."""

    turns: ClassVar[int]
    """Most turns of the policy in one episode."""
    tools: ClassVar[tuple[str, ...]]
    """Methods of its episodes that are tools; without any, turns are plain text."""

    def begin(self, task: Task) -> Episode:
        """A fresh attempt."""
        ...


def has_turns(domain: Domain) -> TypeGuard[TurnDomain]:
    """Whether tasks of the domain take several turns."""
    return hasattr(domain, "begin")


def turn_limit(domain: TurnDomain, task: Task) -> int:
    """Most turns of the policy in an episode of a task."""
    limit: Callable[[Task], int] | None = getattr(domain, "limit", None)
    return limit(task) if limit else domain.turns


class Single:
    """The one turn of a domain without episodes, as an episode."""

    def __init__(self, domain: Domain, task: Task) -> None:
        self.domain, self.task = domain, task

    def reply(self, text: str) -> str | None:
        return None

    def outcome(self, text: str, tokens: int | None = None) -> Outcome:
        return self.domain.verify(self.task, text, tokens)


def begin(domain: Domain, task: Task) -> tuple[Episode, int]:
    """A fresh attempt, in any domain, and the most turns that it may take. Whatever is said in it,
    it comes to a verdict."""
    if has_turns(domain):
        return Captured(domain, task, domain.begin(task)), turn_limit(domain, task)
    return Captured(domain, task, Single(domain, task)), 1


class Said(NamedTuple):
    """One turn of the policy, and what it hears; None where that ends the attempt."""

    text: str
    reply: str | None


def shown(
    domain: Domain, task: Task, style: str, messages: tuple[Message, ...], seed: int
) -> list[Said]:
    """How a task is solved: the attempt of the scripted player `oracle`, or one right answer."""
    player = players(domain).get("oracle")
    if player is None:
        return [Said(domain.oracle(task, style), None)]
    rng = random.Random(derive(seed, "script", task.id))
    return played(*begin(of_text(domain), task), partial(player, task, rng), messages)


def played(
    episode: Episode, limit: int, turn: Callable[[tuple[Message, ...]], str],
    messages: tuple[Message, ...],
) -> list[Said]:  # fmt: skip
    """An attempt, turn by turn as far as it goes; `turn` is told all that was said before."""
    said = list[Said]()
    while len(said) < limit and (not said or said[-1].reply is not None):
        text = turn(messages)
        reply = episode.reply(text)
        said.append(Said(text, reply if len(said) + 1 < limit else None))
        messages = (*messages, Message(role="assistant", content=text))
        if reply is not None:
            messages = (*messages, Message(role="user", content=reply))
    return said


def insisted(domain: Domain, task: Task, text: str) -> Outcome:
    """What an attempt comes to in which the same is said at every turn."""
    episode, limit = begin(domain, task)
    played(episode, limit, lambda _messages: text, ())
    return episode.outcome(text)


def is_game(domain: Domain, tasks: Sequence[Task]) -> TypeGuard[TurnDomain]:
    """Whether no single answer wins: the scripted player `oracle` does, and the solutions of all
    tasks are the same word."""
    if not has_turns(domain) or "oracle" not in players(domain):
        return False
    return len({domain.oracle(task) for task in tasks}) == 1


def of_text(domain: Domain) -> Domain:
    """A domain, refused if its turns are not plain text."""
    if has_turns(domain) and domain.tools:
        raise UserError(f"'{domain.name}' works through tools; its turns are not text")
    return domain


def players(domain: Domain) -> Mapping[str, Player]:
    """Scripted policies of several turns, by name."""
    return getattr(domain, "players", {})
