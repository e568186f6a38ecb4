"""Questions in words: the same chain told as a bare expression or as a story."""

import random
from fractions import Fraction
from typing import NamedTuple

from coevolve.domains.math.chain import SIGNS, Chain, written
from coevolve.domains.math.units import PAIRS, STUFF, UNITS, Unit

NAMES = (
    "Mia", "Omar", "Ling", "Jonas", "Priya", "Tomas", "Aisha", "Noah", "Elena", "Kofi", "Sofia",
    "Yuki", "Ravi", "Hanna", "Diego", "Freya", "Samir", "Lucia", "Ivan", "Nadia",
)  # fmt: skip
THINGS = (
    "apples", "marbles", "stamps", "coins", "books", "pencils", "shells", "stickers", "tickets",
    "beads", "cards", "seeds", "buttons", "bricks", "candles", "postcards",
)  # fmt: skip
STARTS = ("{name} has {amount}.", "{name} begins with {amount}.", "{name} owns {amount} at first.")
EVENTS = {
    "add": (
        "Then {name} gets {amount} more from {friend}.",
        "{friend} brings {name} another {amount}.",
        "{name} buys {amount} more.",
    ),
    "subtract": (
        "Then {name} gives {amount} to {friend}.",
        "{name} uses up {amount}.",
        "After that {name} loses {amount}.",
    ),
    "multiply": (
        "Then what {name} has becomes {n} times as much.",
        "By a lucky trade {name} then has {n} times as much as before.",
    ),
    "divide": (
        "Then what {name} has is divided by {n}.",
        "{name} divides all of it by {n} and keeps only the quotient.",
    ),
}
ASIDES = (
    "{friend} has {n} {other}.",
    "Last year {friend} sold {n} {other}.",
    "The next shop is {n} steps away.",
    "There are {n} people in the street.",
    "{name} lives at house number {n}.",
)
FORMS = {
    "integer": "",
    "decimal": " Give the answer as a decimal number.",
    "fraction": " Give the answer as a fraction in lowest terms.",
    "percent": " Give the answer as a percentage, with the sign %.",
}
WITH_UNIT = " Give the answer with its unit."


class Measure(NamedTuple):
    """What is counted: things, or stuff in a unit; and in which unit the answer is wanted."""

    noun: str
    unit: Unit | None = None
    asked: Unit | None = None

    def amount(self, number: str) -> str:
        return (
            f"{number} {self.unit.plural} of {self.noun}" if self.unit else f"{number} {self.noun}"
        )

    @property
    def wanted(self) -> str:
        """What `How many` is followed by."""
        return f"{self.asked.plural} of {self.noun}" if self.asked else self.noun

    @property
    def factor(self) -> Fraction:
        """What the result of the chain is multiplied by to be in the unit asked for."""
        if not self.unit or not self.asked:
            return Fraction(1)
        return Fraction(self.unit.size, self.asked.size)


def draw_measure(form: str, kind: str, rng: random.Random) -> Measure:
    """Something to count that suits the form of the answer."""
    if kind == "no" and form in ("integer", "percent"):
        return Measure(rng.choice(THINGS))
    tens = [pair for pair in PAIRS if UNITS[pair[0]].kind != "time"]
    small, large = (UNITS[name] for name in rng.choice(tens if form == "decimal" else PAIRS))
    noun = rng.choice(STUFF[small.kind])
    if kind != "other":
        unit = rng.choice((small, large))
        return Measure(noun, unit, unit)
    # A whole number stays one in a smaller unit; a fraction stays one in a larger.
    return Measure(noun, large, small) if form == "integer" else Measure(noun, small, large)


def bare(
    chain: Chain, form: str, measure: Measure, total: int, aside: list[int],
    rng: random.Random,
) -> str:  # fmt: skip
    """An expression to compute; with asides, its numbers are named and others beside them."""
    numbers = [written(value, form) for value in chain.numbers()]
    lead = ""
    if aside:
        letters = rng.sample("abcdefghjkmnpqrstuvwxyz", len(numbers) + len(aside))
        values = dict(zip(letters, [*numbers, *map(str, aside)], strict=True))
        shown = [f"{letter} = {values[letter]}" for letter in sorted(letters)]
        lead, numbers = f"Let {', '.join(shown)}. ", letters[: len(numbers)]
    else:
        numbers = [f"({text})" if set("/-") & set(text) else text for text in numbers]
    text = numbers[0]
    for place, ((operation, _), operand) in enumerate(zip(chain.steps, numbers[1:], strict=True)):
        text = f"{text if place == 0 else f'({text})'} {SIGNS[operation]} {operand}"
    if form == "percent":
        return f"{lead}What percentage of {total} is the value of {text}?"
    if measure.unit is None or measure.asked is None:
        return f"{lead}Compute {text}."
    return (
        f"{lead}The value of {text} is in {measure.unit.plural}. Give it in {measure.asked.plural}."
    )


def story(
    chain: Chain, form: str, measure: Measure, total: int, aside: list[int], rng: random.Random
) -> str:
    """A story in which the chain happens."""
    name, friend, other = rng.sample(NAMES, 3)
    names = {"name": name, "friend": friend}
    start = measure.amount(written(chain.start, form))
    lines = [rng.choice(STARTS).format(**names, amount=start)]
    for operation, operand in chain.steps:
        number = written(operand, form)
        event = rng.choice(EVENTS[operation])
        lines.append(event.format(**names, amount=measure.amount(number), n=number))
    for idle in aside:
        things = rng.choice([thing for thing in THINGS if thing != measure.noun])
        line = rng.choice(ASIDES).format(name=name, friend=other, n=idle, other=things)
        lines.insert(rng.randint(1, len(lines)), line)
    if form == "percent":
        noun = measure.wanted
        lines.append(
            f"{friend} has {measure.amount(str(total))}. What percentage of that is what "
            f"{name} has at the end, in {noun}?"
        )
    else:
        lines.append(f"How many {measure.wanted} does {name} have at the end?")
    return " ".join(lines)
