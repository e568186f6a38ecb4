"""Reading math answers: what counts as the answer, as which number, and what is refused."""

import threading
import time
from fractions import Fraction

import pytest

from coevolve.core.splits import Split
from coevolve.domains.math import symbolic
from coevolve.domains.math.answer import NoAnswer, find, read_number
from coevolve.domains.math.domain import MathDomain

MATH = MathDomain()


def task(answer: str, question: str = "What is it?"):
    return MATH.load({"question": question, "answer": answer})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"so \boxed{42}.", "42"),
        (r"\boxed{1} then \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        ("a\n#### 42\n", "42"),
        ("#### 1\n\\boxed{2}", "2"),
        ("\\boxed{2}\n#### 1", "1"),
        (r"<think>\boxed{9}</think> \boxed{3}", "3"),
    ],
)
def test_the_last_answer_counts(text, found):
    assert find(text) == found


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("42", "no_answer"),
        ("", "no_answer"),
        (r"<think>\boxed{42}</think> It is 42.", "no_answer"),
        (r"<think>\boxed{42}", "truncated"),
        (r"so \boxed{4", "truncated"),
        ("so ####  ", "truncated"),
        (r"\boxed{}", "format"),
        (r"\boxed 42", "format"),
        (r"\boxed{" + "4" * 5_000 + "}", "format"),
    ],
)
def test_no_answer_says_why(text, failure):
    with pytest.raises(NoAnswer) as caught:
        find(text)
    assert caught.value.failure == failure
    assert MATH.verify(task("42"), text).failure == failure


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", 42), ("-7", -7), ("+7", 7), ("−7", -7), ("1,234,567", 1234567), ("0.50", "1/2"),
        (".5", "1/2"), ("1/2", "1/2"), (r"\frac{1}{2}", "1/2"), (r"-\dfrac{3}{4}", "-3/4"),
        (r"\frac12", "1/2"), ("3 1/2", "7/2"), (r"3\frac{1}{2}", "7/2"), ("$18", 18),
        (r"\$18.00", 18),
        ("$5$", 5), ("-$5", -5), ("25%", 25), (r"25\%", 25), ("25 percent", 25), ("1.5e3", 1500),
        (r"1.5 \times 10^{3}", 1500), ("18 dollars", 18), (r"18\text{ eggs per day}", 18),
        (r"\frac{-3}{4}", "-3/4"), (r"18\text{ cm}^2", 18), (r"18^\circ", 18), ("5a^2", None),
        ("2n=4", None), ("x = 5", 5), ("12.", 12), (r"1{,}000", 1000),
        (r"\left( 5 \right)", None), ("5, 6", None),
        ("3 millions", None), ("3 dozens", None), ("5k", None),
        ("5 or 6", None), ("5 or six", None), ("5 and more", None), ("1,23", None), ("1/0", None),
        ("2+3", None), ("6*7", None), ("2^5", None), ("5=5", None), ("NaN", None), ("inf", None),
        ("five", None), ("1 2", None), ("--5", None), ("1e999", None), ("٣", None), ("²", None),
        ("5 apples 6", None), ("1.2.3", None), ("0x10", None), ("1_000", None), ("5 pi", None),
        ("9" * 200, None), ("the answer is 5", None), ("5 million", None), ("", None), ("%", None),
    ],
)  # fmt: skip
def test_one_number_or_none(text, value):
    read = read_number(text)
    assert (read.value if read else None) == (None if value is None else Fraction(value))


@pytest.mark.parametrize(
    ("gold", "answer", "failure"),
    [
        ("42", "42", None), ("42", "42.0", None), ("42", "42%", None), ("42", "43", "wrong_value"),
        ("42", "84/2", "format"), ("42", "6*7", "format"), ("0.5", "1/2", None),
        ("1/2", "0.5", None), ("1/2", "50%", None), ("20%", "0.2", None), ("20%", "20", None),
        ("20%", "2", "wrong_value"), ("1,000", "1000", None), ("42", "40, 41, 42", "format"),
        ("5 kilometres", "5 metres", "unit"), (r"\frac{\sqrt{3}}{2}", r"\sqrt{3}/2", None),
        (r"\frac{\sqrt{3}}{2}", r"\sqrt{3}", "wrong_value"),
        ("(1,2)", "(1, 2)", None), ("(1,2)", "(2,1)", "wrong_value"), ("x^2+1", "1+x^2", None),
        (r"\sqrt{2}", r"3=\sqrt{2}", "format"), (r"\sqrt{2}", r"x_1 = \sqrt{2}", None),
        ("(1,2)", "(x, y) = (1, 2)", None), ("x^2", "f(x)=x^2", None),
        ("x^2+1", "x^2+1, x^2+2", "wrong_value"), ("x^2", "1=2=x^2", "format"),
        ("x^2", r"9^{9^{9^{9}}}", "format"), ("x^2", r"\input{/etc/passwd}", "format"),
        ("x^2", "10^{99999}", "format"), ("x^2", "99!", "format"),
    ],
)  # fmt: skip
def test_answers_to_given_tasks(gold, answer, failure):
    for text in (rf"\boxed{{{answer}}}", f"#### {answer}"):
        outcome = MATH.verify(task(gold), text)
        assert (outcome.failure, outcome.valid) == (failure, failure is None)


def test_a_repeated_question_is_no_answer():
    given = task(r"5\sqrt{3}", r"Simplify \sqrt{12}+\sqrt{27}.")
    assert MATH.verify(given, r"\boxed{\sqrt{12}+\sqrt{27}}").failure == "format"
    assert MATH.verify(given, r"\boxed{\sqrt{75}}").valid


def made(**facts):
    """A generated task with these labels."""
    shares = {f"{value}{'_unit' * (name == 'unit')}.share": 1.0 for name, value in facts.items()}
    knobs = MATH.space.parse(shares)
    return next(MATH.generate(knobs, 1, 5, Split.TRAIN))


def test_forms_and_units_that_were_asked_for():
    kept = made(form="integer", unit="same", text="word")
    number, _, unit = kept.data["answer"].partition(" ")
    assert MATH.verify(kept, rf"\boxed{{{number}\text{{ {unit}}}}}").valid
    assert MATH.verify(kept, rf"\boxed{{{number}}}").failure == "unit"
    assert MATH.verify(kept, rf"\boxed{{{number} apples}}").failure == "unit"
    assert MATH.verify(kept, rf"\boxed{{{int(number) + 1} {unit}}}").failure == "wrong_value"
    share = made(form="percent")
    number = share.data["answer"].rstrip("%")
    assert MATH.verify(share, rf"\boxed{{{number}\%}}").valid
    assert MATH.verify(share, rf"\boxed{{{number}}}").failure == "unit"
    fraction = made(form="fraction", unit="no")
    top, _, bottom = fraction.data["answer"].partition("/")
    assert MATH.verify(fraction, rf"\boxed{{\frac{{{top}}}{{{bottom}}}}}").valid
    doubled = rf"\boxed{{\frac{{{2 * int(top)}}}{{{2 * int(bottom)}}}}}"
    assert MATH.verify(fraction, doubled).failure == "format"


def test_length_never_ranks_a_wrong_answer_above_a_right_one():
    right = [MATH.verify(task("42"), r"\boxed{42}", n).reward for n in (None, 1, 2_000, 10**9)]
    wrong = [MATH.verify(task("42"), r"\boxed{41}", n).reward for n in (None, 1, 2_000, 10**9)]
    assert right[0] == right[1] == MATH.full_reward
    assert right[1] > right[2] > right[3] > 0 >= wrong[1] > wrong[2] > wrong[3]


def test_a_comparison_that_takes_too_long_is_ended_in_any_thread(monkeypatch):
    monkeypatch.setattr(symbolic, "LIMIT_S", 0.0)
    found = []
    began = time.monotonic()
    thread = threading.Thread(target=lambda: found.append(symbolic.COMPARER.compare("y", "y^{2}")))
    thread.start()
    thread.join(60)
    assert found == [False]
    assert time.monotonic() - began < 60
    monkeypatch.undo()
    assert symbolic.COMPARER.compare("y^2", "y^{2}")


def test_hostile_formulas_end(monkeypatch):
    monkeypatch.setattr(symbolic, "LIMIT_S", 1.0)
    began = time.monotonic()
    for answer in (
        r"\frac{" * 20 + "1" + "}{2}" * 20, "(" * 24 + "x" + ")" * 24, "x^{999}^{999}",
        r"(x+1)^{999}", r"\sin(\sin(\sin(\sin(x))))^{900}", "{" * 100, r"\sqrt" * 40,
    ):  # fmt: skip
        assert not MATH.verify(task("x+1"), rf"\boxed{{{answer}}}").valid
    assert time.monotonic() - began < 60
