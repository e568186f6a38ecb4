"""GSM8K's own solutions verify, spoiled ones do not, and no fuzzed answer is taken by mistake."""

import random
import re
import time
from fractions import Fraction

from coevolve.core.splits import Split
from coevolve.domains.math import symbolic
from coevolve.domains.math.answer import read_number
from coevolve.domains.math.chain import written
from coevolve.domains.math.domain import MathDomain

MATH = MathDomain()


def test_every_solution_verifies_and_no_spoiled_one_does(gsm8k):
    assert len(gsm8k) == 8_792
    for row in gsm8k:
        task = MATH.load(row)
        for text in (row["answer"], MATH.oracle(task), MATH.oracle(task, "plain")):
            assert MATH.verify(task, text).valid, row["answer"][-60:]
        value = read_number(task.data["answer"]).value
        before = row["answer"].partition("####")[0]
        spoiled = (value + 1, value - 1, 10 * value + 1, -value - 1, value + Fraction(1, 100))
        for wrong in spoiled:
            for text in (f"#### {written(wrong, 'decimal')}", rf"\boxed{{{written(wrong, '')}}}"):
                assert MATH.verify(task, before + text).failure == "wrong_value"
        assert not MATH.verify(task, before).valid
        assert not MATH.verify(task, row["question"]).valid


PIECES = (
    "\\boxed{", "}", "####", "\n", " ", "<think>", "</think>", "\\frac{", "}{", "/", ".", ",", "-",
    "+", "%", "\\%", "$", "e", "^", "\\times 10^{", " or ", " and ", "=", "x", "\\text{ metres}",
    "metres", "\\sqrt{", "(", ")", "\x00", "٤", "²", "½", "∞", "nan", "inf", "0", "1", "42", "\\",
)  # fmt: skip


def fuzzed(right: str, question: str, rng: random.Random) -> str:
    """An answer that is made of the right one, the question and whatever breaks parsers."""
    numbers = re.findall(r"[0-9]+", question) or ["0"]
    kind = rng.randrange(6)
    if kind == 0:
        return "".join(rng.choice((*PIECES, right, *numbers)) for _ in range(rng.randint(1, 14)))
    if kind == 1:
        return "\\boxed{" + ", ".join([*rng.sample(numbers, len(numbers)), right]) + "}"
    if kind == 2:
        place = rng.randrange(len(right) + 1)
        broken = right[:place] + rng.choice(PIECES) + right[place + rng.randrange(2) :]
        return rng.choice(("#### {}", "\\boxed{{{}}}")).format(broken)
    if kind == 3:
        return question + "".join(rng.choices(PIECES, k=4))
    if kind == 4:
        return "\\boxed{" + "".join(rng.choices(PIECES, k=rng.randint(1, 9))) + "}"
    return "".join(chr(rng.randrange(1, 0x3FF)) for _ in range(rng.randint(0, 200))) + right


def surely_wrong(right: str, text: str) -> bool:
    """Whether no reader could take a text for the right answer: a plain second opinion.

    What stands last in a box or after #### must hold the right digits, in order and alone.
    """
    last = max(text.rfind("\\boxed"), text.rfind("####"))
    if last < 0:
        return True
    line = text.startswith("####", last)
    tail = text[last:].partition("\n")[0] if line else inside(text[last:])
    if any(mark in tail for mark in ("e", "E", "10^", ".", "%")):  # may be the same number
        return False
    return digits(tail) != digits(right)


def inside(text: str) -> str:
    """Up to where the first brace is closed."""
    depth = 0
    for place, mark in enumerate(text):
        depth += (mark == "{") - (mark == "}")
        if mark == "}" and depth == 0:
            return text[:place]
    return text


def digits(text: str) -> list[str]:
    found = (digits.lstrip("0") for digits in re.findall(r"[0-9]+", text.replace(",", "")))
    return [digits for digits in found if digits]


FORMULAS = (r"\frac{\sqrt{3}}{2}", "(3, 14)", "x^{2}+7", r"\{5, 12\}", r"3\pi", "[2, 9)")


def test_ten_thousand_fuzzed_answers(monkeypatch):
    monkeypatch.setattr(symbolic, "LIMIT_S", 1.0)
    count = 10_000
    tasks = list(MATH.generate(MATH.space.parse({"digits": 3}), 100, 9, Split.TRAIN))
    tasks += [MATH.load({"question": r"Solve \sqrt{x}+5.", "answer": text}) for text in FORMULAS]
    tasks.append(MATH.load({"question": "How many?", "answer": "so\n#### 1,042"}))
    rng = random.Random(count)
    taken, slowest = 0, 0.0
    for _ in range(count):
        task = rng.choice(tasks)
        text = fuzzed(task.data["answer"], task.data["question"], rng)
        began = time.monotonic()
        outcome = MATH.verify(task, text)
        slowest = max(slowest, time.monotonic() - began)
        if outcome.valid:
            taken += 1
            assert not surely_wrong(task.data["answer"], text), (task.data["answer"], text)
        else:
            assert outcome.reward <= 0
            assert outcome.failure in MATH.failures
    assert 0 < taken < count / 5
    assert slowest < 30
