"""A chain of operations on exact numbers: what a generated task asks to compute.

    ((12 + 5) * 3) / 4

Invariant: values are fractions, so nothing is ever rounded.
"""

import random
from fractions import Fraction
from math import gcd
from operator import add, mul, sub, truediv
from typing import NamedTuple

APPLY = {"add": add, "subtract": sub, "multiply": mul, "divide": truediv}
SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
MOST_PLACES = 9
"""Decimal places of an answer."""
TRIES = 200


class Chain(NamedTuple):
    """A start, and the operations that are done to it one after the other."""

    start: Fraction
    steps: tuple[tuple[str, Fraction], ...]

    def values(self) -> list[Fraction]:
        """The start and what it is after each step."""
        found = [self.start]
        for operation, operand in self.steps:
            found.append(APPLY[operation](found[-1], operand))
        return found

    def numbers(self) -> list[Fraction]:
        return [self.start, *(operand for _, operand in self.steps)]

    def as_json(self) -> list[str]:
        return [str(self.start), *(f"{op} {operand}" for op, operand in self.steps)]

    def canonical(self) -> str:
        """The same for chains that differ by the order of the first two numbers alone."""
        (first, operand), *_ = self.steps
        if first in ("add", "multiply") and operand < self.start:
            swapped = Chain(operand, ((first, self.start), *self.steps[1:]))
            return " ".join(swapped.as_json())
        return " ".join(self.as_json())


def chain_of(parts: list[str]) -> Chain:
    """A chain from its plain form."""
    steps = []
    for part in parts[1:]:
        operation, _, operand = part.partition(" ")
        SIGNS[operation]
        steps.append((operation, Fraction(operand)))
    return Chain(Fraction(parts[0]), tuple(steps))


def draw_chain(
    operations: list[str], digits: int, form: str, positive: bool, rng: random.Random
) -> Chain:
    """Numbers for some operations, such that the result has the form."""
    for _ in range(TRIES):
        chain = attempt(operations, digits, form, positive, rng)
        if chain and fits(chain.values()[-1], form):
            return chain
    # Rarely do numbers of this size meet a long list of operations; the first one alone they do.
    return draw_chain(operations[:1], digits, form, positive, rng)


def attempt(
    operations: list[str], digits: int, form: str, positive: bool, rng: random.Random
) -> Chain | None:
    small = (digits + 1) // 2
    places = rng.choice((1, 2))
    start = number(form, digits, places, rng)
    if operations[0] == "divide" and form in ("integer", "percent"):
        divisor = whole(small, rng)
        start = Fraction(divisor * whole(max(1, digits - small), rng))
    value, steps = start, []
    for operation in operations:
        operand: Fraction | None
        if operation in ("add", "subtract"):
            operand = number(form, digits, places, rng)
            if operation == "subtract" and positive and operand >= value:
                operand = below(value, form, places, rng)
        elif form == "fraction":
            operand = number(form, small, places, rng)
        elif operation == "multiply":
            operand = Fraction(whole(small, rng))
        elif form == "decimal":
            operand = Fraction(rng.choice((2, 4, 5, 8, 10, 20, 25)))
        else:
            operand = divisor_of(value, 10**small, rng)
            if operand is None:  # nothing divides it, so that another step must come first
                operation, operand = "add", number(form, digits, places, rng)
        if operand is None:
            return None
        steps.append((operation, operand))
        value = APPLY[operation](value, operand)
    return Chain(start, tuple(steps))


def whole(digits: int, rng: random.Random) -> int:
    """A whole number of so many digits, from 2 on."""
    return rng.randint(max(2, 10 ** (digits - 1)), 10**digits - 1)


def number(form: str, digits: int, places: int, rng: random.Random) -> Fraction:
    """A number of so many digits, in the kind of the form."""
    value = whole(digits, rng)
    if form == "decimal":
        return Fraction(value - value % 10 + rng.randint(1, 9), 10**places)
    if form == "fraction":
        bottom = rng.choice([d for d in range(2, 12 + digits) if gcd(d, value) == 1] or [value + 1])
        return Fraction(value, bottom)
    return Fraction(value)


def below(value: Fraction, form: str, places: int, rng: random.Random) -> Fraction | None:
    """A number above 0 and below `value`, None if there is none of the kind."""
    if form == "fraction":
        return value / rng.randint(2, 9)
    grid = 10**places if form == "decimal" else 1
    most = int(value * grid) - 1
    return Fraction(rng.randint(1, most), grid) if most >= 1 else None


def divisor_of(value: Fraction, limit: int, rng: random.Random) -> Fraction | None:
    """A whole number above 1 that divides a whole number other than 0."""
    if value == 0:
        return None
    tried = range(2, limit) if limit <= 100 else [rng.randint(2, limit) for _ in range(100)]
    found = [d for d in (*tried, *range(2, 13)) if value.numerator % d == 0]
    return Fraction(rng.choice(found)) if found else None


def fits(value: Fraction, form: str) -> bool:
    """Whether a result can be asked for in a form."""
    if form == "decimal":
        return value.denominator > 1 and places_of(value) <= MOST_PLACES
    if form == "fraction":
        return value.denominator > 1
    return value.denominator == 1 and (form == "integer" or value > 0)


def places_of(value: Fraction) -> int:
    """Decimal places that a value takes to write; more than MOST_PLACES if it never ends."""
    for places in range(MOST_PLACES + 1):
        if (value * 10**places).denominator == 1:
            return places
    return MOST_PLACES + 1


def written(value: Fraction, form: str) -> str:
    """A value as text: a fraction in the form `fraction`, else a whole or decimal number."""
    if value.denominator == 1:
        return str(value.numerator)
    if form == "fraction":
        return str(value)
    places = places_of(value)
    scaled = abs(value * 10**places)
    digits = str(scaled.numerator).rjust(places + 1, "0")
    return f"{'-' if value < 0 else ''}{digits[:-places]}.{digits[-places:]}"


def ratios(value: int) -> list[int]:
    """Percentages p such that `value` is p % of a whole number, 100 aside."""
    return [p for p in range(1, 201) if p != 100 and 100 * value % p == 0]
