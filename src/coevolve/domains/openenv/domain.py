"""Any OpenEnv server as a domain: `openenv:http://HOST:PORT`; tasks are seeds.

Invariant: a task is what its reset began with, and a server that shows another task for it later
is an error. Splits follow from the task's content, wherever the server may run.
"""

import atexit
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from pydantic import TypeAdapter

from coevolve.core.errors import DomainError, KnobError, UserError
from coevolve.core.rollout import Message, Outcome
from coevolve.core.seeds import derive, digest
from coevolve.core.splits import Split
from coevolve.core.task import Label, Task
from coevolve.domains.base import Script, Statistic
from coevolve.domains.check import Counts
from coevolve.domains.knobs import Knobs, KnobSpace
from coevolve.domains.openenv.connection import (
    Lines,
    Play,
    Refused,
    Told,
    ask,
    read_address,
    told,
)
from coevolve.domains.openenv.declaration import (
    DECLARATION,
    KNOBS,
    LONGEST_NAME,
    LONGEST_SUMMARY,
    SCRIPT,
    STATISTICS,
    ActionSchema,
    Declaration,
    First,
    Mended,
    token,
)
from coevolve.domains.openenv.episode import FAILURES, Answers, ServedEpisode, heard
from coevolve.domains.simple import ATTEMPTS, Data, SimpleDomain, silent
from coevolve.domains.turns import Player

SEED_BITS = 31
"""What every server takes, also one whose numbers come from numpy."""
TURNS = 32
"""Most turns at a server that does not say how many it takes."""
DECLARED, FIRST, MENDED = TypeAdapter(Declaration), TypeAdapter(First), TypeAdapter(Mended)
SCHEMAS = TypeAdapter(dict[str, ActionSchema | None])
METADATA = TypeAdapter(dict[str, Any])
PLAYED = TypeAdapter(dict[Literal["text"], str])
COUNTED = TypeAdapter(dict[str, tuple[float, int]])
"""What routes and resets may answer."""


class ServedDomain(SimpleDomain):
    """Implements the `Domain` protocol for a server whose first answer ends the episode."""

    def __init__(self, text: str, declared: Declaration | None) -> None:
        """`declared` is what a server of ours says of itself, None for any other."""
        self.text, self.name, self.declared = text, f"openenv:{text}", declared
        self.address = read_address(text)
        self.lines = Lines(self.address)
        atexit.register(self.lines.close)
        about = declared or described(self.address.base)
        self.kind, self.summary = about.name, about.summary
        self.own = declared is not None
        self.space = KnobSpace(about.knobs, self.problem, self.mend)
        self.failures, self.components = about.failures, about.components
        self.buckets, self.styles = about.buckets, about.styles
        self.shown_by, self.full_reward, self.turns = about.panels, about.full_reward, about.turns
        if about.counts:
            self.counts = Counts(*about.counts)
        schemas = self.told(SCHEMAS, ask(self.address.base, "/schema") or {})
        self.answers = Answers(schemas.get("action") or ActionSchema())

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return open_server, (self.text,)

    def told(self, kind: TypeAdapter[Told], value: Any) -> Told:
        """What the server says, if it is of the kind that was asked for."""
        return told(kind, value, self.text)

    def close(self) -> None:
        """End all sessions."""
        self.lines.close()

    @property
    def panels(self) -> tuple[str, ...]:
        return self.shown_by

    @property
    def scripts(self) -> Mapping[str, Script]:
        if not (self.declared and token()):
            return {"silent": silent}
        return {name: partial(self.scripted, name) for name in self.declared.scripts}

    @property
    def players(self) -> Mapping[str, Player]:
        if not (self.declared and token()):
            return {}
        return {name: partial(self.played, name) for name in self.declared.players}

    def problem(self, values: dict[str, float]) -> str | None:
        """What the server has against these knobs."""
        return self.mended(values).problem if self.own and values else None

    def mend(self, values: dict[str, float]) -> None:
        if self.own and values:
            values.update(self.mended(values).nearest)

    def mended(self, values: dict[str, float]) -> Mended:
        found = self.told(MENDED, ask(self.address.base, KNOBS, values))
        if found.nearest.keys() != values.keys():
            raise DomainError(f"{self.text} corrected other knobs than it was given")
        return found

    def generate(
        self, knobs: Knobs, count: int, seed: int, split: Split, workers: int = 1
    ) -> Iterator[Task]:
        """One after the other, however many workers there are: it is the server that works."""
        for number in range(count):
            yield self.draw_task(knobs, derive(seed, split.value, number), split)

    def draw_task(self, knobs: Knobs, seed: int, split: Split) -> Task:
        for attempt in range(ATTEMPTS):
            drawn = derive(seed, self.kind, attempt) >> (63 - SEED_BITS)
            given = {"split": split.value, "knobs": dict(knobs)} if self.own else {}
            task = self.as_task(self.begun({"seed": drawn, **given}), drawn)
            if task.split is split:
                return task
        raise KnobError(
            f"no task of the split '{split}' in {ATTEMPTS} seeds of {self.text}: it shows too few "
            "different tasks"
        )

    def begun(self, arguments: dict[str, Any]) -> Data:
        """The data of the task that a reset begins."""
        play = Play(self.lines, arguments)
        try:
            first = play.begin().observation
        except Refused as error:
            raise DomainError(f"{self.text} refused to begin {arguments}: {error}") from None
        finally:
            play.end()
        told = self.told(FIRST, first).model_dump(exclude={"messages"}) if self.own else {}
        return {"reset": arguments, "messages": self.shown(first), **told}

    def shown(self, first: dict[str, Any]) -> list[dict[str, str]]:
        """The messages that an episode begins with."""
        if self.own:
            return [said.model_dump() for said in self.told(FIRST, first).messages]
        return [
            {"role": "system", "content": f"{self.summary}\n{self.answers.rules()}".strip()},
            {"role": "user", "content": heard(first)},
        ]

    def content(self, data: Data) -> str:
        return "\n".join(message["content"] for message in data["messages"])

    def mark(self, data: Data) -> int:
        if self.own:
            return int(data["fingerprint"])
        return int.from_bytes(digest(self.kind, self.content(data), size=8), "big")

    def as_task(self, data: Data, seed: int = 0) -> Task:
        made = super().as_task(data, seed)
        return made.model_copy(update={"id": f"{self.kind}-{made.id.rpartition('-')[2]}"})

    def labels(self, data: Data) -> dict[str, Label]:
        return dict(data.get("bucket", {}))

    def complete(self, data: Data) -> Data:
        """What the server shows for the reset, whatever else was written down."""
        if not isinstance(data.get("reset"), dict):
            raise UserError(f"a task of {self.name} needs its `reset` arguments")
        found = self.begun(data["reset"])
        if data.get("messages", found["messages"]) != found["messages"]:
            raise UserError("the task claims another prompt than the server shows for its seed")
        return found

    def question(self, data: Data) -> str:
        return self.content(data)

    def answer(self, data: Data) -> str:
        return ""  # known to the server alone; `load` asks whether there is one

    def solve(self, data: Mapping[str, Any]) -> dict[str, Any]:
        return {"answer": self.oracle(self.load(data))}

    def prompt(self, task: Task, style: str = "") -> tuple[Message, ...]:
        chosen = self.style(style)
        messages = task.data["messages"]
        if chosen != self.styles[0]:
            messages = self.begun({**task.data["reset"], "style": chosen})["messages"]
        return tuple(Message.model_validate(message) for message in messages)

    def start(self, task: Task) -> ServedEpisode:
        return ServedEpisode(self, task)

    def verify(self, task: Task, text: str, tokens: int | None = None) -> Outcome:
        episode = self.start(task)
        episode.reply(text, tokens)
        return episode.outcome(text, tokens)

    def oracle(self, task: Task, style: str = "") -> str:
        if "oracle" not in self.scripts:
            raise DomainError(
                f"{self.text} gives no solutions; a coevolve server does if both sides have the "
                "same COEVOLVE_ORACLE_TOKEN"
            )
        return self.scripted("oracle", task, random.Random(0), style)

    def played(self, name: str, task: Task, rng: random.Random, said: Sequence[Message]) -> str:
        return self.scripted(name, task, rng, "", said)

    def scripted(
        self, name: str, task: Task, rng: random.Random, style: str, said: Sequence[Message] = ()
    ) -> str:
        """What a script of the server says, after what was said before."""
        asked = {
            "script": name,
            "reset": {**task.data["reset"], "style": self.style(style)},
            "seed": rng.getrandbits(63),
            "messages": [message.model_dump() for message in said],
        }
        return self.told(PLAYED, ask(self.address.base, SCRIPT, asked, token()))["text"]

    def statistics(self, tasks: Sequence[Task]) -> dict[str, Statistic]:
        if not self.own:
            return {}
        resets = [task.data["reset"] for task in tasks]
        found = self.told(COUNTED, ask(self.address.base, STATISTICS, resets))
        return {name: Statistic(*values) for name, values in found.items()}


class ServedTurnDomain(ServedDomain):
    """Implements the `TurnDomain` protocol for any other server."""

    tools: tuple[str, ...] = ()

    def begin(self, task: Task) -> ServedEpisode:
        return self.start(task)

    def limit(self, task: Task) -> int:
        return int(task.data.get("turns", self.turns))


def open_server(text: str) -> ServedDomain:
    """The domain behind an address."""
    base = read_address(text).base
    found = ask(base, DECLARATION)
    declared = None if found is None else told(DECLARED, found, base + DECLARATION)
    several = declared is None or declared.turns > 1
    return (ServedTurnDomain if several else ServedDomain)(text, declared)


def described(base: str) -> Declaration:
    """What can be said of a server that only speaks OpenEnv."""
    about = told(METADATA, ask(base, "/metadata") or {}, base)
    return Declaration(
        name=str(about.get("name") or "server")[:LONGEST_NAME],
        summary=str(about.get("description") or f"an OpenEnv server at {base}")[:LONGEST_SUMMARY],
        failures=FAILURES,
        components={"reward": "the sum of what the server gave"},
        turns=TURNS,
    )


def members() -> list[str]:
    raise UserError("every OpenEnv server is a domain; write openenv:http://HOST:PORT")
