"""A domain of your own in several turns: a number is to be found, and every guess is answered.

`coevolve new-domain NAME --turns` copies this file. Change what is played, then run
`coevolve check NAME`.
"""

import random

from coevolve.core.rollout import Message, Outcome
from coevolve.core.task import Task
from coevolve.domains.knobs import Knob, Knobs, KnobSpace
from coevolve.domains.simple import Data, SimpleDomain, tagged

SPACE = KnobSpace(
    (Knob("high", 4, 1_000, 64, "number", "mean highest number", harder=1, shown=True),)
)


class Search:
    """One attempt at a task: what was said so far may change what comes next."""

    def __init__(self, domain: "TemplateDomain", task: Task) -> None:
        self.domain, self.task = domain, task

    def reply(self, text: str) -> str | None:
        """What the policy hears after its turn; None ends the attempt."""
        said, secret = tagged(text), self.task.data["secret"]
        if said is None or not said.isdecimal() or len(said) > 6 or int(said) == secret:
            return None
        return f"It is {'higher' if int(said) < secret else 'lower'} than {int(said)}."

    def outcome(self, text: str, tokens: int | None = None) -> Outcome:
        """The verdict, when `text` was said last."""
        return self.domain.verify(self.task, text, tokens)


def halve(task: Task, _rng: random.Random, messages: tuple[Message, ...]) -> str:
    """A scripted player, who hears all that was said before: it asks for the middle."""
    low, high = 1, task.data["high"]
    for message in messages:
        words = message.content.split()
        if words[:2] == ["It", "is"]:
            number = int(words[-1].rstrip("."))
            low, high = (number + 1, high) if "higher" in words else (low, number - 1)
    return f"<answer>{(low + high) // 2}</answer>"


class TemplateDomain(SimpleDomain):
    """What is not here is inherited: splits, prompts, verdicts, loading (`SimpleDomain`)."""

    name = "template"
    summary = "finding a number by guesses"
    space = SPACE
    turns = 11
    """That a policy may take at most in any task."""
    tools = ()
    """Methods of `Search` that a policy may call; without any, turns are plain text."""
    players = {"oracle": halve}
    """Scripted policies of several turns. The one called `oracle` always wins: `coevolve evaluate
    -p oracle` plays it, and a warm start shows a policy what it does."""

    def make(self, knobs: Knobs, rng: random.Random) -> Data:
        """One task as plain JSON values. Draw from `rng` alone: same seed, same tasks."""
        high = max(2, round(knobs["high"] * rng.uniform(0.8, 1.2)))
        card = "".join(rng.choice("abcdefghij") for _ in range(6))
        return {"card": card, "high": high, "secret": rng.randint(1, high)}

    def question(self, data: Data) -> str:
        """What a policy is asked. It also decides the split, so it must tell tasks apart."""
        return f"Card {data['card']} has a number from 1 to {data['high']}: find it."

    def answer(self, data: Data) -> str:
        """What ends the attempt well; shown to nobody. Where no single answer does, as in a game
        against somebody, say the same word for all tasks, such as "won", and have `outcome` give
        `verify` that word, in tags, for an attempt that won."""
        return str(data["secret"])

    def begin(self, task: Task) -> Search:
        return Search(self, task)

    def limit(self, task: Task) -> int:
        """Most turns for one task: as many as halving takes."""
        return int(task.data["high"]).bit_length()
