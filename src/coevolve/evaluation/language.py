"""Two general skills of a language model, JSON and simple questions, measured by program.

Training on one kind of answer is known to destroy them. The prompts are made from a seed; those
that are held out share no words, keys or questions with those that are replayed.
"""

import json
import random
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from coevolve.core.rollout import Message
from coevolve.core.seeds import derive
from coevolve.evaluation.statistics import Rate, wilson
from coevolve.policies.base import Policy, Prompt, Sampling

SOME_WORDS = """
river stone lamp green window paper silver garden bridge winter coffee planet rabbit mirror summer
pocket cotton anchor apple autumn bakery balloon banana barrel basket battery beach bottle
bracelet branch butter button cabin camera canal carpet castle cherry chimney circle cliff cloud
copper corner cradle cricket crystal curtain desert diamond dragon drawer eagle farmer feather
finger flower fountain glacier glove grape guitar hammer helmet honey hotel island jacket jungle
kettle kitchen lemon leopard library lion magnet market meadow melon mountain museum needle ocean
olive orange orchard oven palace parrot pencil penguin piano pillow pirate plum pony potato
pumpkin puzzle pyramid radio rainbow ribbon robot rocket saddle sailor salmon sandal school shadow
sheep shirt spider spoon spring square statue sugar temple thunder ticket tiger tomato towel tower
tractor trumpet tunnel turtle umbrella valley village violin volcano wagon walnut water whale
wheel willow wizard wolf yellow zebra
"""
WORDS = {
    False: SOME_WORDS.split(),
    True: ["harbour", "candle", "violet", "ladder", "pepper", "marble", "forest", "engine"],
}
"""Many of those that are replayed: of few, a model may learn the words instead of copying them."""
SOME_FIELDS = """
name age city colour price author length street score level brand owner
month team unit model class code room floor height width speed rank genre status group region
material shape
"""
FIELDS = {False: SOME_FIELDS.split(), True: ["title", "year", "country", "size", "weight"]}
CAPITALS = {
    False: {"Italy": "Rome", "Japan": "Tokyo", "Egypt": "Cairo", "Greece": "Athens",
            "Portugal": "Lisbon", "Norway": "Oslo", "Austria": "Vienna", "Cuba": "Havana",
            "Sweden": "Stockholm", "Kenya": "Nairobi", "Iran": "Tehran", "Chile": "Santiago",
            "Thailand": "Bangkok", "Finland": "Helsinki", "Iraq": "Baghdad", "Serbia": "Belgrade",
            "Romania": "Bucharest", "Lebanon": "Beirut", "Syria": "Damascus", "Ghana": "Accra"},
    True: {"France": "Paris", "Germany": "Berlin", "Spain": "Madrid", "Russia": "Moscow",
           "China": "Beijing", "Poland": "Warsaw", "Ireland": "Dublin", "Peru": "Lima",
           "Hungary": "Budapest", "Denmark": "Copenhagen", "Belgium": "Brussels",
           "Turkey": "Ankara", "Canada": "Ottawa", "Argentina": "Buenos Aires",
           "South Korea": "Seoul", "India": "New Delhi", "Ukraine": "Kyiv", "Vietnam": "Hanoi",
           "Afghanistan": "Kabul", "Mexico": "Mexico City"},
}  # fmt: skip
OPPOSITES = {
    False: {"up": "down", "open": "closed", "full": "empty", "rich": "poor", "wet": "dry",
            "strong": "weak", "loud": "quiet", "push": "pull", "sweet": "sour", "win": "lose",
            "sharp": "dull", "buy": "sell"},
    True: {"hot": "cold", "big": "small", "day": "night", "old": "young", "left": "right",
           "black": "white", "fast": "slow", "hard": "soft", "high": "low", "early": "late",
           "light": "dark", "happy": "sad", "thick": "thin", "first": "last", "love": "hate"},
}  # fmt: skip


class Instruction(NamedTuple):
    """A prompt whose answer a program can check."""

    skill: str
    messages: tuple[Message, ...]
    check: Callable[[str], bool]


def instructions(count: int, seed: int, held_out: bool) -> list[Instruction]:
    """Half JSON, half questions."""
    kinds = (_json, _capital, _json, _opposite)
    made = []
    for index in range(count):
        rng = random.Random(derive(seed, "instruction", index, str(held_out)))
        made.append(kinds[index % len(kinds)](rng, held_out))
    return made


def measure(policy: Policy, count: int = 80, seed: int = 0) -> dict[str, Rate]:
    """How often the policy does what it is told, by skill, on held-out prompts that differ."""
    drawn = instructions(count, seed, held_out=True)
    asked = list({instruction.messages: instruction for instruction in drawn}.values())
    prompts = [Prompt(instruction.messages) for instruction in asked]
    answers = policy.answer(prompts, Sampling(temperature=0, max_tokens=64, seed=seed))
    right: dict[str, list[bool]] = {}
    for instruction, answer in zip(asked, answers, strict=True):
        right.setdefault(instruction.skill, []).append(instruction.check(answer.text))
    return {skill: wilson(sum(found), len(found)) for skill, found in right.items()}


def _ask(text: str) -> tuple[Message, ...]:
    return (Message(role="user", content=text),)


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


def _json(rng: random.Random, held_out: bool) -> Instruction:
    first, second = rng.sample(FIELDS[held_out], 2)
    word, number = rng.choice(WORDS[held_out]), rng.randint(2, 99)
    text = (
        f'Write a JSON object with the keys "{first}" and "{second}". '
        f'The value of "{first}" is "{word}", the value of "{second}" is {number}.'
    )

    def check(answer: str) -> bool:
        return any(
            str(found.get(first)).lower() == word and str(found.get(second)) == str(number)
            for found in _objects(answer)
        )

    return Instruction("json", _ask(text), check)


def _says(answer: str, words: str) -> bool:
    """Whether the words stand in an answer, and not just within others."""
    return re.search(rf"\b{words}\b", answer, re.IGNORECASE) is not None


def _capital(rng: random.Random, held_out: bool) -> Instruction:
    country, capital = rng.choice(sorted(CAPITALS[held_out].items()))
    text = f"What is the capital of {country}?"
    return Instruction("questions", _ask(text), lambda answer: _says(answer, capital))


def _opposite(rng: random.Random, held_out: bool) -> Instruction:
    word, other = rng.choice(sorted(OPPOSITES[held_out].items()))
    text = f'What is the opposite of the word "{word}"?'
    return Instruction("questions", _ask(text), lambda answer: _says(answer, other))
