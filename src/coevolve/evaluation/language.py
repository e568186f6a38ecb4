"""Two general skills of a language model, JSON and simple questions, measured by program.

Training on one kind of answer is known to destroy them. The prompts are made from a seed; those
that are held out share no words, keys or questions with those that are replayed.
"""

import json
import random
import re
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from importlib.resources import files
from typing import Any, NamedTuple

from coevolve.core.rollout import Message
from coevolve.core.seeds import derive
from coevolve.evaluation.statistics import Rate, wilson
from coevolve.policies.base import Policy, Prompt, Sampling

WORDS: dict[str, Any] = tomllib.loads((files(__package__) / "language.toml").read_text("utf-8"))
"""What prompts are made of, those that are replayed and those that are held out."""


class Instruction(NamedTuple):
    """A prompt whose answer a program can check."""

    skill: str
    prompt: str
    check: Callable[[str], bool]

    @property
    def messages(self) -> tuple[Message, ...]:
        return (Message(role="user", content=self.prompt),)


def instructions(count: int, seed: int, held_out: bool) -> list[Instruction]:
    """Half JSON, half questions."""
    words = WORDS["held_out" if held_out else "replayed"]
    capital = partial(_question, "What is the capital of {}?", words["capitals"])
    opposite = partial(_question, 'What is the opposite of the word "{}"?', words["opposites"])
    json_object = partial(_json, words["fields"], words["words"])
    kinds = (json_object, capital, json_object, opposite)
    return [
        kinds[index % len(kinds)](random.Random(derive(seed, "instruction", index, str(held_out))))
        for index in range(count)
    ]


def measure(policy: Policy, count: int = 80, seed: int = 0) -> dict[str, Rate]:
    """How often the policy does what it is told, by skill, on held-out prompts that differ."""
    drawn = instructions(count, seed, held_out=True)
    asked = list({instruction.prompt: instruction for instruction in drawn}.values())
    prompts = [Prompt(instruction.messages) for instruction in asked]
    answers = policy.answer(prompts, Sampling(temperature=0, max_tokens=64, seed=seed))
    right: dict[str, list[bool]] = {}
    for instruction, answer in zip(asked, answers, strict=True):
        right.setdefault(instruction.skill, []).append(instruction.check(answer.text))
    return {skill: wilson(sum(found), len(found)) for skill, found in right.items()}


def _objects(text: str) -> Iterator[dict[str, object]]:
    """The JSON objects in an answer, whatever stands around them."""
    decoder = json.JSONDecoder()
    for place, character in enumerate(text):
        if character == "{":
            try:
                found, _ = decoder.raw_decode(text, place)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict):
                yield found


def _json(fields: list[str], words: list[str], rng: random.Random) -> Instruction:
    first, second = rng.sample(fields, 2)
    word, number = rng.choice(words), rng.randint(2, 99)
    text = (
        f'Write a JSON object with the keys "{first}" and "{second}". '
        f'The value of "{first}" is "{word}", the value of "{second}" is {number}.'
    )

    def check(answer: str) -> bool:
        return any(
            str(found.get(first)).lower() == word and str(found.get(second)) == str(number)
            for found in _objects(answer)
        )

    return Instruction("json", text, check)


def _question(text: str, answers: dict[str, str], rng: random.Random) -> Instruction:
    """Asks for what goes with a word; right is an answer with it, and not just within others."""
    word, wanted = rng.choice(sorted(answers.items()))
    found = re.compile(rf"\b{wanted}\b", re.IGNORECASE)
    return Instruction("questions", text.format(word), lambda answer: bool(found.search(answer)))
