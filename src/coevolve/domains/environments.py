"""Any domain as a Gymnasium environment of text: the prompt is seen, the answer is the action.

Importing this module registers `coevolve/NAME-v0` for every domain that is installed; members of a
family (`reasoning.NAME`) are registered by `register`. A domain of one turn ends with the first
step; one of several turns goes on as its episodes do. The invariant: every verdict is the domain's.
"""

import string
from typing import Any, SupportsFloat

import gymnasium
from gymnasium import spaces

from coevolve.core.errors import UserError
from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.domains.registry import get_domain, names
from coevolve.domains.turns import Episode, begin, of_text

LONGEST = 1_000_000
"""Characters of a prompt or an answer."""
DRAWN = 64
"""Tasks generated at a time."""


class Printable(spaces.Text):
    """Text of any characters; Gymnasium's own knows only those that it is told."""

    def __init__(self) -> None:
        super().__init__(LONGEST, min_length=0, charset=string.printable)

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= LONGEST

    def sample(self, *_: Any, **__: Any) -> str:
        length = int(self.np_random.integers(0, 64))
        return "".join(self.np_random.choice(list(string.printable), length))


class TextEnv(gymnasium.Env[str, str]):
    """Tasks of one domain. An observation is what was said to the policy last.

    `reset(options={"task": task})` begins with that task; without it, one is drawn from the knobs.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}
    episode: Episode

    def __init__(
        self,
        domain: str | Domain,
        knobs: dict[str, float] | None = None,
        split: str = "train",
        style: str = "",
        render_mode: str | None = None,
    ) -> None:
        self.domain = of_text(get_domain(domain) if isinstance(domain, str) else domain)
        if render_mode not in (None, "ansi"):
            raise UserError(f"render mode {render_mode!r}; there are None and 'ansi'")
        if split == Split.TEST:
            raise UserError("the test split is looked at once, by `coevolve final`; use train")
        self.knobs = self.domain.space.parse(knobs or {})
        self.split, self.style, self.render_mode = Split(split), style, render_mode
        self.observation_space = self.action_space = Printable()
        self.waiting: list[Task] = []
        self.task: Task | None = None
        self.said: list[str] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begin a task: its prompt, and its id, labels and messages."""
        super().reset(seed=seed)
        if seed is not None:
            self.waiting.clear()
        self.task = (options or {}).get("task") or self.next_task()
        messages = self.domain.prompt(self.task, self.style)
        self.episode, self.limit = begin(self.domain, self.task)
        self.said = []
        info = {
            "task": self.task.id,
            "bucket": dict(self.task.bucket),
            "messages": [message.model_dump() for message in messages],
        }
        return "\n\n".join(message.content for message in messages), info

    def next_task(self) -> Task:
        if not self.waiting:
            seed = derive(int(self.np_random.integers(2**62)), "environment")
            made = self.domain.generate(self.knobs, DRAWN, seed, self.split)
            self.waiting = list(made)[::-1]
        return self.waiting.pop()

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Say something: the reply, the reward once the episode is over, and the outcome."""
        if self.task is None:
            raise UserError("the episode is over; reset the environment before the next step")
        if not isinstance(action, str):
            raise UserError(f"an action is text, not {action!r:.60}")
        self.said.append(action)
        reply = self.episode.reply(action)
        cut = reply is not None and len(self.said) >= self.limit
        if reply is not None and not cut:
            return reply, 0.0, False, False, {}
        self.task = None
        outcome = self.episode.outcome(action)
        return reply or "", outcome.reward, not cut, cut, outcome.model_dump(mode="json")

    def render(self) -> str | None:
        if self.render_mode != "ansi" or self.task is None:
            return None
        return self.domain.draw(self.task, self.said[-1] if self.said else None)


def register(name: str) -> str:
    """Make `gymnasium.make("coevolve/NAME-v0")` work for a domain; the id."""
    identity = f"coevolve/{name}-v0"
    if identity not in gymnasium.registry:
        entry = f"{__name__}:TextEnv"
        gymnasium.register(id=identity, entry_point=entry, kwargs={"domain": name})
    return identity


for known in names():
    register(known)
