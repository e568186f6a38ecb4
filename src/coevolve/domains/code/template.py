"""A template: one kind of programming task, with numbers in it that are drawn.

Invariant: `reference` is correct for every input that `inputs` makes, and fast on the large ones.
"""

import random
import re
from collections.abc import Callable
from typing import Any, NamedTuple

Parameters = dict[str, Any]
Inputs = Callable[[random.Random, int, str, Parameters], list[Any]]
"""Arguments for one test of a size and a kind: plain, edge or large."""


class Argument(NamedTuple):
    name: str
    kind: str
    """int, text, ints, words (lines without blanks) or rows (lists of whole numbers)."""


def ints(
    rng: random.Random, size: int, kind: str, low: int = -99, high: int = 99, least: int = 0
) -> list[int]:
    """A list of whole numbers: of about a size, an awkward one, or a long one."""
    if kind == "large":
        return [rng.randint(low, high) for _ in range(size)]
    if kind == "plain":
        count = rng.randint(max(least, 2, size // 2), max(least, 2, size))
        return [rng.randint(low, high) for _ in range(count)]
    value, count = rng.randint(low, high), max(least, rng.randint(2, max(2, size)))
    ramp = sorted(rng.randint(low, high) for _ in range(count))
    choices = [
        [value] * least,
        [value] * max(least, 1),
        [value] * count,
        ramp,
        ramp[::-1],
        [rng.choice((low, high)) for _ in range(count)],
    ]
    return rng.choice(choices)


def letters(rng: random.Random, size: int, kind: str, alphabet: str) -> str:
    """A text over an alphabet: of about a size, an awkward one, or a long one."""
    if kind == "edge":
        count = rng.randint(1, max(2, size))
        one, two = rng.choice(alphabet), rng.choice(alphabet)
        return rng.choice([one, one * count, (one + two) * count, one * count + two])
    count = size if kind == "large" else rng.randint(max(2, size // 2), max(2, size))
    return "".join(rng.choices(alphabet, k=count))


def numbers(rng: random.Random, size: int, kind: str, _parameters: Parameters) -> list[Any]:
    """One list of numbers, the argument of most templates."""
    return [ints(rng, size, kind)]


NUMBERS = Argument("numbers", "ints")


class Template(NamedTuple):
    name: str
    draw: Callable[[random.Random], Parameters]
    statement: str
    """What the result is, with the parameters in braces; see `worded`."""
    reference: str
    """A function `core`, with the parameters between double angle brackets."""
    large: int
    """Size of a large test."""
    takes: tuple[Argument, ...] = (NUMBERS,)
    gives: str = "int"
    """int, text or ints."""
    inputs: Inputs = numbers
    brute: str = ""
    """A function `core` that is right but too slow for large tests; empty where there is none."""
    steps: bool = True
    """Whether the numbers of a list that is the first argument may be anything, also none."""


def filled(source: str, parameters: Parameters) -> str:
    """A source with its parameters in place, all at once: what a value says is no place."""
    return re.sub(
        r"<<(\w+)>>", lambda m: repr(parameters[m[1]]) if m[1] in parameters else m[0], source
    )


def worded(statement: str, parameters: Parameters) -> str:
    """A statement with its parameters in place; `[name:yes|no]` follows a parameter that is a truth
    value."""
    for name, value in parameters.items():
        if isinstance(value, bool):
            statement = re.sub(
                rf"\[{name}:([^|]*)\|([^]]*)\]", r"\1" if value else r"\2", statement
            )
    return statement.format(**parameters)
