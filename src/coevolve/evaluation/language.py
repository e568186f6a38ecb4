"""Two general skills of a language model, JSON and instructions, measured by program.

Training on one kind of answer is known to destroy them. The prompts are made from a seed; those
that are held out share neither templates' words nor values with those that are replayed.
"""

import json
import random
from collections.abc import Callable
from typing import NamedTuple

from coevolve.core.rollout import Message
from coevolve.core.seeds import derive
from coevolve.evaluation.statistics import Rate, wilson
from coevolve.policies.base import Policy, Prompt, Sampling

WORDS = {
    False: ("river", "stone", "lamp", "green", "window", "paper", "silver", "garden", "bridge"),
    True: ("harbour", "candle", "violet", "ladder", "pepper", "marble", "forest", "engine"),
}
FIELDS = {
    False: ("name", "age", "city", "colour", "price"),
    True: ("title", "year", "country", "size", "weight"),
}


class Instruction(NamedTuple):
    """A prompt whose answer a program can check."""

    skill: str
    messages: tuple[Message, ...]
    check: Callable[[str], bool]


def instructions(count: int, seed: int, held_out: bool) -> list[Instruction]:
    """Half JSON, half other instructions."""
    kinds = (_json_object, _json_list, _repeat, _one_word)
    made = []
    for index in range(count):
        rng = random.Random(derive(seed, "instruction", index, str(held_out)))
        made.append(kinds[index % len(kinds)](rng, held_out))
    return made


def measure(policy: Policy, count: int = 40, seed: int = 0) -> dict[str, Rate]:
    """How often the policy does what it is told, by skill, on held-out prompts."""
    asked = instructions(count, seed, held_out=True)
    prompts = [Prompt(instruction.messages) for instruction in asked]
    answers = policy.answer(prompts, Sampling(temperature=0, max_tokens=64, seed=seed))
    right: dict[str, list[bool]] = {}
    for instruction, answer in zip(asked, answers, strict=True):
        right.setdefault(instruction.skill, []).append(instruction.check(answer.text))
    return {skill: wilson(sum(found), len(found)) for skill, found in right.items()}


def _ask(text: str) -> tuple[Message, ...]:
    return (Message(role="user", content=text),)


def _loaded(text: str) -> object:
    """The JSON value in an answer, with or without a fence around it."""
    stripped = text.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
    try:
        return json.loads(stripped)
    except (ValueError, RecursionError):
        return None


def _json_object(rng: random.Random, held_out: bool) -> Instruction:
    first, second = rng.sample(FIELDS[held_out], 2)
    word, number = rng.choice(WORDS[held_out]), rng.randint(2, 99)
    text = (
        f'Write a JSON object with the keys "{first}" and "{second}". '
        f'The value of "{first}" is "{word}", the value of "{second}" is {number}. Only JSON.'
    )
    wanted = {first: word, second: number}
    return Instruction("json", _ask(text), lambda answer: _loaded(answer) == wanted)


def _json_list(rng: random.Random, held_out: bool) -> Instruction:
    words = rng.sample(WORDS[held_out], 3)
    text = f"Write these words as a JSON list of strings: {', '.join(words)}. Only JSON."
    return Instruction("json", _ask(text), lambda answer: _loaded(answer) == words)


def _repeat(rng: random.Random, held_out: bool) -> Instruction:
    words = " ".join(rng.sample(WORDS[held_out], 3))
    text = f'Repeat exactly these words and write nothing else: "{words}"'
    return Instruction(
        "instructions", _ask(text), lambda answer: answer.strip().strip('".').lower() == words
    )


def _one_word(rng: random.Random, held_out: bool) -> Instruction:
    words = rng.sample(WORDS[held_out], 3)
    place = rng.randrange(3)
    which = ("first", "second", "third")[place]
    text = f"Here are three words: {', '.join(words)}. Answer with the {which} word only."
    wanted = words[place]
    return Instruction(
        "instructions", _ask(text), lambda answer: answer.strip().strip('".').lower() == wanted
    )
