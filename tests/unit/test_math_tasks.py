"""Generated math tasks: exact, told in words that hold the numbers, and what loading refuses."""

import ast
import operator
import re
from fractions import Fraction

import pytest

from coevolve.core.errors import CoevolveError, UserError
from coevolve.core.splits import Split
from coevolve.domains.math.answer import read_number
from coevolve.domains.math.domain import MathDomain

MATH = MathDomain()
OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip


def value_of(node: ast.expr) -> Fraction:
    """The exact value of an expression of the question."""
    if isinstance(node, ast.Constant):
        return Fraction(str(node.value))
    if isinstance(node, ast.UnaryOp):
        return -value_of(node.operand)
    assert isinstance(node, ast.BinOp)
    return OPERATORS[type(node.op)](value_of(node.left), value_of(node.right))


@pytest.mark.parametrize("digits", [1, 3, 8])
def test_bare_questions_have_the_value_that_they_claim(digits):
    knobs = MATH.space.parse(
        {"bare.share": 1, "no_unit.share": 1, "distractors": 0, "digits": digits, "steps": 3}
    )
    seen = 0
    for task in MATH.generate(knobs, 150, 1, Split.TRAIN):
        question, total = task.data["question"], 100
        found = re.match(r"Compute (.*?)\. |Compute (.*)\.$", question)
        if not found:
            found = re.match(r"What percentage of ([0-9]+) is the value of (.*)\?", question)
            total = int(found[1])
        expression = found[2] or found[1]
        value = value_of(ast.parse(expression, mode="eval").body)
        answer = read_number(task.data["answer"])
        assert answer.value == (value * 100 / total if answer.percent else value), question
        seen += 1
    assert seen == 150


def test_stories_hold_every_number_and_vary():
    knobs = MATH.space.parse({"word.share": 1, "distractors": 2})
    tasks = list(MATH.generate(knobs, 200, 2, Split.TRAIN))
    for task in tasks:
        for part in task.data["chain"]:
            assert Fraction(part.split()[-1]).numerator != 0
        written = re.findall(r"[0-9]+(?:[./][0-9]+)?", task.data["question"])
        numbers = [Fraction(text) for text in written]
        for part in task.data["chain"]:
            assert Fraction(part.split()[-1]) in numbers
        assert len(numbers) >= len(task.data["chain"]) + 2
    assert len({task.data["question"] for task in tasks}) == 200


def test_the_same_chain_in_other_words_is_in_the_same_split():
    knobs = MATH.space.parse({"digits": 1, "steps": 1})
    homes = {}
    for split in Split:
        for task in MATH.generate(knobs, 100, 3, split):
            homes.setdefault(MATH.content(task.data), set()).add(task.split)
    assert len(homes) > 100
    assert all(len(found) == 1 for found in homes.values())


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({}, "needs text under one of question"),
        ({"question": "Why?"}, "needs its answer"),
        ({"question": "", "answer": "5"}, "needs text"),
        ({"question": 5, "answer": "5"}, "needs text"),
        ({"question": "Why?", "answer": ["5"]}, "needs its answer"),
        ({"question": "Why?", "answer": "so ####"}, "no answer in the solution"),
        ({"question": "Why?", "answer": "x" * 1_000}, "1000 characters"),
        ({"question": "Why?", "answer": "\\foo{x}"}, "cannot be checked"),
        ({"question": "x" * 30_000, "answer": "5"}, "30000 characters"),
        ({"data": {"question": "Why?"}}, "not a task"),
        ({"chain": ["1", "modulo 2"], "form": "integer"}, "not a task of math"),
    ],
)
def test_bad_lines_are_refused_in_one_line(row, said):
    with pytest.raises(UserError, match=said) as caught:
        MATH.load(row)
    assert "\n" not in str(caught.value)


def test_a_claimed_answer_is_not_believed():
    task = next(MATH.generate(MATH.space.defaults(), 1, 0, Split.DEV)).model_dump(mode="json")
    changed = {**task, "data": {**task["data"], "answer": "123456"}}
    with pytest.raises(UserError, match="claims the answer '123456'"):
        MATH.load(changed)
    with pytest.raises(CoevolveError, match="belongs to the split 'dev'"):
        MATH.load({**task, "split": "test"})


def test_public_formats():
    gsm = MATH.load({"question": "How many?", "answer": "2+2 = <<2+2=4>>4\n#### 1,004"})
    assert (gsm.data["answer"], gsm.bucket["steps"]) == ("1,004", 1)
    aime = MATH.load({"ID": "2024-I-1", "Problem": "Find it.", "Answer": 204, "Solution": "..."})
    assert aime.data["answer"] == "204"
    math = MATH.load({"problem": "Find x.", "solution": r"So $x=\boxed{\frac{1}{2}}$."})
    assert math.data["answer"] == r"\frac{1}{2}"
    for task in (gsm, aime, math):
        for style in MATH.styles:
            assert MATH.verify(task, MATH.oracle(task, style)).valid


def test_worker_processes_make_the_same_tasks(monkeypatch):
    alone = list(MATH.generate(MATH.space.defaults(), 40, 0, Split.TRAIN))
    monkeypatch.setattr(MathDomain, "chunk", 20)
    assert list(MATH.generate(MATH.space.defaults(), 40, 0, Split.TRAIN, workers=2)) == alone


def test_the_benchmark_is_balanced_and_solved_by_the_oracle():
    tasks = list(MATH.suites["benchmark"]())
    assert len(tasks) == 480
    assert len({task.bucket["operation"] for task in tasks}) == 4
    assert all(MATH.verify(task, MATH.oracle(task)).valid for task in tasks)
