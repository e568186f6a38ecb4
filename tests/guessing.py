"""A domain of several turns for tests: a number is to be guessed, each guess is answered."""

import random

from coevolve.core.rollout import Message, Outcome
from coevolve.domains.check import Counts
from coevolve.domains.knobs import Knob, Knobs, KnobSpace
from coevolve.domains.simple import Data, SimpleDomain, tagged

SPACE = KnobSpace((Knob("high", 50, 2_000, 900, "number", "mean highest number", harder=1),))


class Guess:
    """An episode that says whether the number is higher or lower."""

    def __init__(self, domain, task):
        self.domain, self.task = domain, task
        self.guesses = 0

    def reply(self, text: str) -> str | None:
        said, secret = tagged(text), self.task.data["secret"]
        self.guesses += 1
        if said is None or not said.isdecimal() or int(said) == secret:
            return None
        return f"The number is {'higher' if int(said) < secret else 'lower'} than {said}."

    def outcome(self, text: str, tokens: int | None = None) -> Outcome:
        found = self.domain.verify(self.task, text, tokens)
        return found.model_copy(update={"details": {**found.details, "guesses": self.guesses}})


def halve(task, _rng: random.Random, messages: tuple[Message, ...]) -> str:
    """Asks for the middle of what is left."""
    low, high = 1, task.data["high"]
    for message in messages:
        words = message.content.split()
        if words[:3] == ["The", "number", "is"]:
            number = int(words[-1].rstrip("."))
            low, high = (number + 1, high) if "higher" in words else (low, number - 1)
    return f"<answer>{(low + high) // 2}</answer>"


class GuessingDomain(SimpleDomain):
    name = "guessing"
    summary = "a number is to be guessed"
    space = SPACE
    turns = 12
    tools = ()
    counts = Counts(sample=20, many=40, split=20, pushed=20)
    players = {"halve": halve}

    def make(self, knobs: Knobs, rng: random.Random) -> Data:
        high = round(knobs["high"] * rng.uniform(0.9, 1.1))
        return {"high": high, "secret": rng.randint(1, high)}

    def question(self, data: Data) -> str:
        return f"Guess the number from 1 to {data['high']}; you are told where it lies."

    def content(self, data: Data) -> str:
        return f"{data['high']} {data['secret']}"

    def answer(self, data: Data) -> str:
        return str(data["secret"])

    def begin(self, task):
        return Guess(self, task)

    def limit(self, task):
        return min(self.turns, task.data["high"].bit_length() + 1)
