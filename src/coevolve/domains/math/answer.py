r"""Reading an answer: which part of a text it is, and which number that part says.

The last `\boxed{...}` or `####` counts, after any `<think>` block. Invariant: the part is one
number and nothing else but a sign, a unit or words without numbers, so that a list of candidates,
a repeated question or an expression that was not computed is never read as a number.
"""

import re
from fractions import Fraction
from math import gcd
from typing import NamedTuple

from coevolve.core.thought import spoken

LONGEST = 300
"""Characters of an answer proper."""
MOST_DIGITS = 120

BOX, MARK = "\\boxed", "####"
WHOLE = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)"
NUMBER = re.compile(
    rf"""(?P<sign>[-+]?)\s?(?P<currency>[$€£¥]?)\s?(?P<sign2>-?)
    (?:
        (?:(?P<units>{WHOLE})\s+)?(?P<top>{WHOLE})\s?/\s?(?P<bottom>{WHOLE})
      | (?P<whole>{WHOLE})?(?P<part>\.[0-9]+)?
        (?:[eE](?P<power>[-+]?[0-9]{{1,3}})|\s?(?:\*|×)\s?10\^(?P<power2>[-+]?[0-9]{{1,3}}))?
    )
    \s?(?P<percent>%|percent\b)?\s?(?P<words>[A-Za-zµ°][A-Za-zµ°²³'/. -]*)?""",
    re.VERBOSE,
)
AFTER = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred
thousand million billion half third quarter dozen hundreds thousands millions billions halves
thirds quarters dozens k or and not but to plus minus times mod pi e i x y z n sqrt inf infinity
nan trillion trillions quadrillion quadrillions quintillion zillion lakh lakhs crore crores score
gross mil bn mn squared cubed root roots power powers factorial negative positive opposite inverse
reciprocal double doubled twice triple tripled thrice halved quadruple fold point over divided
multiplied by less without except never no false wrong incorrect base binary hexadecimal octal
fourth fourths fifth fifths sixth sixths seventh sevenths eighth eighths ninth ninths tenth tenths
hundredth hundredths thousandth thousandths millionth millionths th st nd rd if about almost
nearly approximately roughly between
"""
NUMBER_WORDS = frozenset(AFTER.split())
"""Words after a number that make it another number, or none."""
MOST_WORDS = 4
LARGE_LETTERS = frozenset("ABDEGHIJKMOPQRSTUVWXYZ")
"""Alone they are a million, a billion or an unknown; L is litres, and C, F and N are units too."""

REMOVED = (
    "\\left",
    "\\right",
    "\\displaystyle",
    "\\,",
    "\\!",
    "\\;",
    "\\:",
    "\\(",
    "\\)",
    "\\[",
    "\\]",
)
SPELLED = {
    "\\dfrac": "\\frac", "\\tfrac": "\\frac", "\\%": "%", "\\$": "$", "{,}": ",", "~": " ",
    "\u2212": "-", "\u2013": "-", "\u00a0": " ", "\u202f": " ", "\\ ": " ", "\\times": "×",
    "\\cdot": "×", "\\quad": " ", "^\\circ": "°", "^{\\circ}": "°",
}  # fmt: skip
TEXT = re.compile(
    r"\\(?:text|textbf|mathrm|mathbf|mbox|operatorname)\s?\{([^{}]*)\}(?:\^\{?([23])\}?)?"
)
HIGH = {None: "", "2": "²", "3": "³"}
FRACTION = re.compile(rf"\\frac\s?\{{([-+]?{WHOLE})\}}\s?\{{({WHOLE})\}}|\\frac([0-9])([0-9])")
POWER = re.compile(r"10\^\{([-+]?[0-9]{1,3})\}")
NAMED = re.compile(r"^[A-Za-z]\s?=\s?(?=[-+$.0-9])")


class Reading(NamedTuple):
    """A number as it was written."""

    value: Fraction
    kind: str
    """integer, decimal or fraction."""
    percent: bool = False
    words: str = ""
    """What follows the number, such as a unit."""
    lowest: bool = True
    """A fraction in lowest terms."""


class NoAnswer(Exception):
    """Why a text has no answer: the failure class and the reason."""

    def __init__(self, failure: str, reason: str) -> None:
        super().__init__(reason)
        self.failure = failure


def find(text: str) -> str:
    """The part of a text that is its answer; raises NoAnswer."""
    said = spoken(text)
    if said is None:
        raise NoAnswer("truncated", "the text ends within <think>")
    text = said
    boxed, marked = text.rfind(BOX), text.rfind(MARK)
    if boxed < 0 and marked < 0:
        raise NoAnswer("no_answer", f"neither {BOX}{{...}} nor {MARK} in the text")
    if boxed > marked:
        return inside(text[boxed + len(BOX) :])
    line = text[marked + len(MARK) :].lstrip(" \t")
    if not line.strip():
        raise NoAnswer("truncated", f"the text ends at {MARK}")
    return short(line.partition("\n")[0])


def inside(text: str) -> str:
    """What stands in the braces that a text begins with."""
    text = text.lstrip()
    if text and text[0] != "{":
        raise NoAnswer("format", f"{BOX} without braces")
    depth = 0
    for place, mark in enumerate(text[: 4 * LONGEST]):
        depth += (mark == "{") - (mark == "}")
        if depth == 0:
            return short(text[1:place])
    if len(text) < 4 * LONGEST:
        raise NoAnswer("truncated", f"the text ends within {BOX}{{")
    raise NoAnswer("format", f"{BOX}{{ does not end within {4 * LONGEST} characters")


def short(content: str) -> str:
    content = content.strip()
    if not content:
        raise NoAnswer("format", "the answer is empty")
    if len(content) > LONGEST:
        raise NoAnswer("format", f"an answer of {len(content)} characters; {LONGEST} at most")
    return content


def tidy(content: str) -> str:
    """The answer without what LaTeX and typesetting put around it."""
    for old, new in SPELLED.items():
        content = content.replace(old, new)
    for word in REMOVED:
        content = content.replace(word, "")
    content = TEXT.sub(lambda m: f" {m[1]}".rstrip() + HIGH[m[2]] + " ", content)
    content = content.strip().strip("$" if content.count("$") > 1 else "").strip()
    content = content.removesuffix(".").strip()
    content = FRACTION.sub(lambda m: f" {m[1] or m[3]}/{m[2] or m[4]} ", content)
    content = POWER.sub(r"10^\1", content)
    return " ".join(content.split())


def read_number(content: str) -> Reading | None:
    """The one number that an answer says, None where it is anything else."""
    plain = NAMED.sub("", tidy(content), count=1)
    if len(plain) > LONGEST or sum(mark.isdigit() for mark in plain) > MOST_DIGITS:
        return None
    found = NUMBER.fullmatch(plain)
    if not found or not (found["top"] or found["whole"] or found["part"]):
        return None
    if found["sign"] and found["sign2"]:
        return None
    words = (found["words"] or "").split()
    if any(word in LARGE_LETTERS for word in words):
        return None
    words = [word.lower() for word in words]
    if len(words) > MOST_WORDS or NUMBER_WORDS.intersection(re.split(r"[^a-z]+", " ".join(words))):
        return None
    negative = "-" in (found["sign"], found["sign2"])
    lowest = True
    if found["top"]:
        top, bottom = whole(found["top"]), whole(found["bottom"])
        if bottom == 0:
            return None
        value, kind = Fraction(top, bottom) + whole(found["units"] or "0"), "fraction"
        lowest = gcd(top, bottom) == 1 and bottom > 1
    else:
        value = Fraction((found["whole"] or "0").replace(",", "") + (found["part"] or ""))
        power = int(found["power"] or found["power2"] or 0)
        if abs(power) > MOST_DIGITS:
            return None
        value *= Fraction(10) ** power
        kind = "decimal" if found["part"] or power else "integer"
    return Reading(
        -value if negative else value, kind, bool(found["percent"]), " ".join(words), lowest
    )


def whole(text: str) -> int:
    return int(text.replace(",", ""))
