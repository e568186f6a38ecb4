"""The verdict on an answer: the right value, in the form and the unit that were asked for.

Invariant: an answer that is no number is never right where a number is asked for.
"""

import re
from typing import Any

from coevolve.domains.math import symbolic
from coevolve.domains.math.answer import NoAnswer, Reading, find, read_number, tidy
from coevolve.domains.math.units import UNITS, unit_called, unknown_words

NAME = re.compile(
    r"(?:\\text\{[^{}]*\}|\\?[A-Za-z]+|\([A-Za-z](?:\s?,\s?[A-Za-z])*\))"
    r"(?:_\{?\w+\}?)?'?\s?(?:\([A-Za-z, ]+\))?"
)
"""What may stand before an equals sign: x, x_1, f(x), (x, y)."""

FAILURES = {
    "truncated": "the text ends before its answer does",
    "no_answer": "neither \\boxed{...} nor #### in the text",
    "format": "the answer is not one number, or not in the form asked for",
    "wrong_value": "another value than the right one",
    "unit": "the right number, with a wrong or missing unit or percent sign",
}


def judge(data: dict[str, Any], text: str) -> tuple[str, str]:
    """Failure class and reason of an answer, both empty for a right one."""
    try:
        content = find(text)
    except NoAnswer as error:
        return error.failure, str(error)
    if data["form"] == "expression":
        return judge_expression(data, content)
    read = read_number(content)
    if read is None:
        return "format", f"not one number: {content[:60]!r}"
    gold = read_number(data["answer"])
    assert gold is not None  # tasks are checked when they are made or loaded
    return judge_given(data, gold, read) if data["form"] == "any" else judge_asked(data, gold, read)


def judge_asked(data: dict[str, Any], gold: Reading, read: Reading) -> tuple[str, str]:
    """Of a generated task, whose question says what form and unit it wants."""
    form = data["form"]
    if read.value != gold.value:
        if form == "percent" and not read.percent and read.value * 100 == gold.value:
            return "format", "the right share, but not as a percentage"
        if same_quantity(gold, read):
            return "unit", f"the right quantity in another unit than {data['asked']}"
        return "wrong_value", f"{read.value} is not the value"
    if read.percent != gold.percent:
        return "unit", "the sign % is " + ("missing" if gold.percent else "too much")
    if (read.kind == "fraction") != (form == "fraction"):
        return "format", f"the right value, but not as {form}"
    if not read.lowest:
        return "format", "the right value, but not in lowest terms"
    if odd := unknown_words(read.words, data["question"], gold.words):
        return "unit", f"{odd!r} is neither a unit nor a word of the question"
    said, asked = unit_called(read.words), UNITS.get(data["asked"])
    if data["unit"] != "no" and said != asked:
        return "unit", f"{data['asked']} was asked for, not {read.words or 'a bare number'!r}"
    if said and asked and said != asked:
        return "unit", f"{data['asked']} was asked for, not {said.name}"
    return "", ""


def same_quantity(gold: Reading, read: Reading) -> bool:
    """Whether two numbers with units are the same amount."""
    one, other = unit_called(gold.words), unit_called(read.words)
    return bool(
        one and other and one.kind == other.kind
        and gold.value * one.size == read.value * other.size
    )  # fmt: skip


def judge_given(data: dict[str, Any], gold: Reading, read: Reading) -> tuple[str, str]:
    """Of a task from elsewhere, whose question does not say what form it wants."""
    accepted = {gold.value}
    if gold.percent or read.percent:
        accepted.add(gold.value / 100 if gold.percent else gold.value * 100)
    if gold.percent and read.percent:
        accepted = {gold.value}
    if read.value not in accepted:
        return "wrong_value", f"{read.value} is not the value"
    if read.kind == "fraction" and gold.value.denominator == 1:
        return "format", "a quotient that was not computed"
    if odd := unknown_words(read.words, data["question"], gold.words):
        return "unit", f"{odd!r} is neither a unit nor a word of the question"
    one, other = unit_called(gold.words), unit_called(read.words)
    if one and other and one != other:
        return "unit", f"in {other.name}, not in {one.name}"
    return "", ""


def judge_expression(data: dict[str, Any], content: str) -> tuple[str, str]:
    """Of a task whose answer is no number: a formula, a point, an interval."""
    gold = data["answer"]
    packed = pack(content)
    if packed == pack(gold):
        return "", ""
    if len(packed) > 3 and packed in pack(data["question"]):
        return "format", "a part of the question, not computed"
    if content.count("=") > max(1, gold.count("=")):
        return "format", "a chain of equations, not one answer"
    if "=" in content and "=" not in gold:
        name, content = (part.strip() for part in content.split("=", 1))
        if not NAME.fullmatch(name):
            return "format", "an equation, not one answer"
    if problem := symbolic.refused(content):
        return "format", problem
    if brackets(content) != brackets(gold):
        return "wrong_value", "brackets of another kind: a point is no set, and no interval"
    if symbolic.equal(gold, content):
        return "", ""
    return "wrong_value", "not equal to the right answer"


def brackets(latex: str) -> list[str]:
    """The brackets around lists, of which only those of a set may be left out; math-verify takes
    a set for a point."""
    found, opened = [], list[list[str]]([["", ""]])
    for mark in tidy(latex).replace("\\{", "{").replace("\\}", "}"):
        if mark in "([{":
            opened.append([mark, ""])
        elif mark in ")]}" and len(opened) > 1:
            begin, comma = opened.pop()
            found += [begin + mark] * bool(comma)
        elif mark in ",;":
            opened[-1][1] = mark
    return sorted(kind for kind in found if kind != "{}")


def pack(text: str) -> str:
    """Text without gaps, to compare how answers are written."""
    return "".join(tidy(text).split())
