"""Domains from the real reasoning-gym: conformance, strict scoring, and text that is never run."""

import ast
import operator
import os
import random
import re
import subprocess
import sys

import pytest

pytest.importorskip("reasoning_gym", reason="needs the extra `reasoning`")

from coevolve.core.errors import UserError
from coevolve.core.splits import Split
from coevolve.domains.check import conformance
from coevolve.domains.reasoning.domain import EXCLUDED, ReasoningDomain, names
from coevolve.domains.reasoning.levels import datasets, entry_of
from coevolve.domains.reasoning.score import ALPHABETS, GAMES, plain, same_numbers, small
from coevolve.domains.registry import get_domain, members

FEW = ("leg_counting", "chain_sum", "tower_of_hanoi", "fraction_simplification")
"""Numbers, several right answers, and a scorer that takes padded answers."""


@pytest.mark.parametrize(
    "name", [*FEW, *(pytest.param(n, marks=pytest.mark.slow) for n in names() if n not in FEW)]
)
def test_conformance(name):
    failed = [
        finding for finding in conformance(get_domain(f"reasoning.{name}")) if not finding.passed
    ]
    assert failed == []


def test_every_data_set_is_a_domain_or_says_why_not():
    assert set(names()) | set(EXCLUDED) == set(datasets())
    assert len(names()) >= 90
    assert members("reasoning")[0] == f"reasoning.{names()[0]}"
    assert set(ALPHABETS) <= set(names())
    for name, reason in EXCLUDED.items():
        with pytest.raises(UserError, match=reason):
            get_domain(f"reasoning.{name}")
    with pytest.raises(UserError, match="did you mean 'leg_counting'"):
        get_domain("reasoning.leg_countin")
    with pytest.raises(UserError, match="coevolve domains reasoning"):
        get_domain("reasoning")


def test_worker_processes_make_the_same_tasks(monkeypatch):
    domain = ReasoningDomain("graph_color")
    alone = list(domain.generate(domain.space.defaults(), 12, 0, Split.DEV))
    monkeypatch.setattr(ReasoningDomain, "chunk", 6)
    assert list(domain.generate(domain.space.defaults(), 12, 0, Split.DEV, workers=2)) == alone


DRAW = """
import random, sys
from coevolve.domains.reasoning.domain import ReasoningDomain, names
for name in names():
    domain = ReasoningDomain(name)
    data = domain.make(domain.space.defaults(), random.Random(1))
    print(name, domain.fingerprint(domain.as_task(data)), repr(domain.answer(data)))
"""


@pytest.mark.slow
def test_no_data_set_hangs_on_the_order_of_a_set(tmp_path):
    """Which differs between processes."""
    found = [
        subprocess.run(
            [sys.executable, "-c", DRAW], env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, timeout=600, check=True, cwd=tmp_path,
        ).stdout.splitlines()
        for seed in ("1", "2")
    ]  # fmt: skip
    assert [pair for pair in zip(*found, strict=True) if pair[0] != pair[1]] == []


PADDED = ("Perhaps {}", "{} or not", "{}\n{}", "0 {}", "{}, 0", "xx{}xx", "{} {}", "not {}")


def padded_and_taken(name: str) -> list[str]:
    """Answers that merely contain the right one and are taken all the same."""
    domain = ReasoningDomain(name)
    rng = random.Random(0)
    found = []
    for _ in range(3):
        data = domain.make(domain.space.defaults(), rng)
        answer = domain.answer(data)
        assert domain.right(data, answer)
        for form in PADDED:
            text = form.replace("{}", answer)
            legitimate = form == "0 {}" and answer.startswith("-") and name in (*ALPHABETS, *GAMES)
            if domain.right(data, text) and not legitimate:
                found.append(text)
    return found


LENIENT = (
    "letter_jumble", "fraction_simplification", "gsm_symbolic", "survo", "knights_knaves",
    "simple_integration", "quantum_lock", "leg_counting", "coin_flip", "complex_arithmetic",
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [*LENIENT, *(pytest.param(n, marks=pytest.mark.slow) for n in names() if n not in LENIENT)],
)
def test_padded_answers_are_not_taken(name):
    assert padded_and_taken(name) == []


OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip


def value_of(node):
    if isinstance(node, ast.Constant):
        return float(node.value)
    if isinstance(node, ast.UnaryOp):
        return value_of(node.operand) * (-1 if isinstance(node.op, ast.USub) else 1)
    return OPERATORS[type(node.op)](value_of(node.left), value_of(node.right))


def test_other_right_answers_are_taken():
    domain = ReasoningDomain("puzzle24")
    data = domain.make(domain.space.defaults(), random.Random(1))
    assert domain.right(data, f"({domain.answer(data)})")
    assert not domain.right(data, "24")
    assert not domain.right(data, f"{domain.answer(data)}+1")
    sums = ReasoningDomain("chain_sum")
    data = sums.make(sums.space.defaults(), random.Random(1))
    assert sums.right(data, f"{sums.answer(data)}.0")


EVALUATED = (
    "n_queens", "puzzle24", "simple_integration", "spiral_matrix", "binary_matrix",
    "string_insertion",
)  # fmt: skip


@pytest.mark.parametrize("name", EVALUATED)
def test_what_a_model_wrote_is_never_run(name, tmp_path, monkeypatch):
    """The library's scorers of these data sets evaluate answers as Python."""
    monkeypatch.chdir(tmp_path)
    domain = ReasoningDomain(name)
    data = domain.make(domain.space.defaults(), random.Random(2))
    for text in (
        "open('owned','w')", "[open('owned','w')]", "__import__('os').system('touch owned')",
        "exit()", "quit()", "9**9**9**9**9", "9**99999999", "(" * 2_000, "x**(9**9)", "lambda:0",
    ):  # fmt: skip
        assert not domain.right(data, text)
    assert list(tmp_path.iterdir()) == []


def test_what_the_library_prints_is_not_shown(capsys):
    domain = ReasoningDomain("tower_of_hanoi")
    data = domain.make(domain.space.defaults(), random.Random(2))
    assert not domain.right(data, "Move disk 2 from Peg 1 to Peg 9")
    assert capsys.readouterr().out == ""


def test_ten_thousand_fuzzed_answers():
    domains = [ReasoningDomain(n) for n in (*FEW, "puzzle24", "simple_integration", "n_queens")]
    tasks = [
        (d, d.as_task(d.make(d.space.defaults(), random.Random(s))))
        for d in domains
        for s in range(4)
    ]
    rng = random.Random(5)
    marks = '()+-*/ 0123456789abcxyzQ_[]{}",.:\n\\<>eE%$\x00é'
    taken = 0
    for _ in range(10_000):
        domain, task = rng.choice(tasks)
        answer = domain.answer(task.data)
        text = list(rng.choice((answer, answer, domain.answer(rng.choice(tasks)[1].data), "")))
        for _ in range(rng.randint(0, 3)):
            place = rng.randint(0, len(text))
            text[place : place + rng.randint(0, 2)] = rng.choice(marks)
        said = "".join(text)
        wrapped = rng.choice(("<answer>{}</answer>", "{}", "<answer>{}", "<answer>x</answer>{}"))
        outcome = domain.verify(task, wrapped.replace("{}", said))
        if not outcome.valid:
            assert (outcome.reward, outcome.failure in domain.failures) == (0.0, True)
            continue
        taken += 1
        same = plain(said) == plain(answer) or same_numbers(said, answer)
        assert same or domain.dataset in (*ALPHABETS, *GAMES), (domain.name, answer, said)
        if domain.dataset == "puzzle24":
            assert value_of(ast.parse(said.strip(), mode="eval").body) == 24
            assert sorted(re.findall("[0-9]+", said)) == sorted(re.findall("[0-9]+", answer))
    assert 0 < taken < 5_000


@pytest.mark.parametrize(
    ("change", "said"),
    [({"num_animals": 99}, "num_animals from 0 to 35"), ({"seed": "x"}, "whole number as `seed`"),
     ({"answer": "7777"}, "another answer"), ({"num_animals": None}, "needs num_animals")],
)  # fmt: skip
def test_bad_tasks_are_refused(change, said):
    domain = ReasoningDomain("leg_counting")
    task = next(domain.generate(domain.space.defaults(), 1, 0, Split.DEV))
    assert domain.load(task.data).data == task.data
    with pytest.raises(UserError, match=said):
        domain.load({**task.data, **change})


@pytest.mark.parametrize(
    ("formula", "fine"),
    [
        ("x**3/3 + 2*x", True), ("(x + 1)**2/2", True), ("x**9 + x**8 + x**7 + x**6", True),
        ("(((((9**99)**99)**99)**99)**99)*x", False), ("9**9**9", False), ("x**(2+1)", False),
        ("x**-1 + x**0.5 + 2**x", True), ("x**-999", False), ("9**9**x", False),
        ("x**999", False), ("x**", False),
    ],
)  # fmt: skip
def test_only_formulas_that_can_be_computed_are(formula, fine):
    assert small(formula) is fine


def test_sequences_that_square_themselves_end() -> None:
    """With this seed the library reckons with numbers of billions of digits."""
    levels = (("min_value", 0), ("max_value", 0), ("max_complexity", 1))
    assert entry_of("number_sequence", levels, 651_102_874)["question"] == "-3, 3, -3, 3, -3, ?"
