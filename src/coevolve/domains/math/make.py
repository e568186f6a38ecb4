"""One generated task: a chain of operations, the form and unit of its answer, and its words."""

import random
from fractions import Fraction
from typing import Any

from coevolve.domains.knobs import Knobs, around, pick
from coevolve.domains.math.chain import (
    SIGNS,
    Chain,
    chain_of,
    draw_chain,
    fits,
    ratios,
    whole,
    written,
)  # fmt: skip
from coevolve.domains.math.knobs import FORMS as FORM_SHARES
from coevolve.domains.math.knobs import OPERATIONS, TEXTS, UNITS
from coevolve.domains.math.units import UNITS as KNOWN
from coevolve.domains.math.words import FORMS, WITH_UNIT, Measure, bare, draw_measure, story


def make(knobs: Knobs, rng: random.Random) -> dict[str, Any]:
    """The data of one task."""
    main = pick(rng, knobs, OPERATIONS)
    form, text = pick(rng, knobs, FORM_SHARES), pick(rng, knobs, TEXTS)
    kind = "no" if form == "percent" else pick(rng, knobs, UNITS, "_unit")
    digits, steps = around(rng, knobs["digits"]), around(rng, knobs["steps"])
    operations = [main]
    while len(operations) < steps:
        operations.append(main if rng.random() < 0.5 else pick(rng, knobs, OPERATIONS))
    plain = text == "bare" and kind == "no"
    measure = Measure("") if plain else draw_measure(form, kind, rng)
    while True:
        positive = text == "word" or kind != "no" or form == "percent"
        chain = draw_chain(operations, digits, form, positive, rng)
        if fits(chain.values()[-1] * measure.factor, form):
            break
    total = 0
    if form == "percent":
        value = int(chain.values()[-1])
        total = 100 * value // rng.choice(ratios(value))
    aside = [whole(digits, rng) for _ in range(around(rng, knobs["distractors"]))]
    tell = story if text == "word" else bare
    question = tell(chain, form, measure, total, aside, rng)
    question += FORMS[form] + (WITH_UNIT if kind != "no" else "")
    data: dict[str, Any] = {
        "question": question,
        "chain": chain.as_json(),
        "form": form,
        "text": text,
        "unit": kind,
        "measured": measure.unit.name if measure.unit else "",
        "asked": measure.asked.name if measure.asked else "",
        "total": total,
        "distractors": len(aside),
    }
    return {**data, "answer": result(data)}


def result(data: dict[str, Any]) -> str:
    """The answer that follows from a task's chain, as plain text."""
    chain, form = chain_of(data["chain"]), data["form"]
    value = chain.values()[-1]
    if form == "percent":
        return f"{written(value * 100 / data['total'], form)}%"
    value *= conversion(data)
    unit = KNOWN[data["asked"]].plural if data["unit"] != "no" else ""
    return f"{written(value, form)} {unit}".strip()


def conversion(data: dict[str, Any]) -> Fraction:
    """What the chain's result is multiplied by to be in the unit asked for."""
    if data["unit"] != "other":
        return Fraction(1)
    return Fraction(KNOWN[data["measured"]].size, KNOWN[data["asked"]].size)


def working(data: dict[str, Any]) -> list[str]:
    """The solution step by step."""
    chain, form = chain_of(data["chain"]), data["form"]
    values = chain.values()
    lines = [
        f"{written(before, form)} {SIGNS[operation]} {bracketed(operand, form)} = "
        f"{written(after, form)}"
        for before, (operation, operand), after in zip(
            values[:-1], chain.steps, values[1:], strict=True
        )
    ]
    last, factor = values[-1], conversion(data)
    if form == "percent":
        share = written(last * 100 / data["total"], form)
        lines.append(f"{written(last, form)} / {data['total']} * 100 = {share}")
    elif factor != 1:
        sign, by = ("*", factor) if factor > 1 else ("/", 1 / factor)
        lines.append(f"{written(last, form)} {sign} {by} = {written(last * factor, form)}")
    return lines


def bracketed(value: Fraction, form: str) -> str:
    text = written(value, form)
    return f"({text})" if set("/-") & set(text) else text


def digits_of(chain: Chain) -> float:
    """The mean number of digits of the numbers that a chain begins with and works with."""
    lengths = [
        len(written(abs(value), "decimal" if value.denominator % 10 == 0 else "fraction")
            .partition("/")[0].replace(".", "").lstrip("0"))
        for value in chain.numbers()
    ]  # fmt: skip
    return sum(lengths) / len(lengths)
