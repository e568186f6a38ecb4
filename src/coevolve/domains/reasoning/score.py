"""Strict scoring for reasoning-gym: the reference answer, or another that is right beyond doubt.

The library's scorers give credit for answers that merely contain the right one, take padded ones
as fully right in a dozen data sets, and some evaluate what a model wrote as Python or do not look
at the numbers that a sum was to use. So an answer is compared with the reference; the library is
asked only where several answers are right, and only about text in that data set's own alphabet.
"""

import ast
import math
import operator
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from fractions import Fraction
from io import StringIO
from typing import Any

FULL = 1.0
NAME = r"(?<![A-Za-z0-9.])(?:[A-Za-z]|exp|a?sin|a?cos|a?tan|log|sqrt)(?![A-Za-z])"
FORMULA = rf"(?:[0-9]|(?<=[0-9])\.(?=[0-9])|{NAME}|[-+*/() ])"
ALPHABETS = {
    "cryptarithm": r"[A-Z0-9=, ]",
    "graph_color": r'[{}":, 0-9]',
    "group_anagrams": r'[\[\]", a-z]',
    "intermediate_integration": FORMULA,
    "jugs": r'[\[\]", A-Za-z0-9>-]',
    "kakurasu": r"[01 \n]",
    "n_queens": r"[Q_ \n]",
    "palindrome_generation": r"[a-z]",
    "palindrome_partitioning": r'[\[\]", a-z]',
    "quantum_lock": r"[A-C→ ]",
    "shortest_path": r"[a-z ]",
    "simple_integration": FORMULA,
    "tower_of_hanoi": r"[A-Za-z0-9 \n]",
    "word_ladder": r"[A-Z,]",
}
"""Data sets with several right answers, and what their answers are made of."""
GAMES = ("countdown", "puzzle24")
"""Sums to be found: right is what has the value of the reference and uses the same numbers."""
OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
LARGEST_POWER = 99
"""Of anything in a formula, powers of powers multiplied."""
NUMBER = re.compile(r"[-+]?[0-9]{1,40}(?:\.[0-9]{1,40})?")


def right(dataset: str, scorer: Any, entry: dict[str, Any], answer: str) -> bool:
    """Whether an answer is right."""
    reference = entry["answer"]
    if plain(answer) == plain(reference) or same_numbers(answer, reference):
        return True
    if len(answer) > 4 * len(reference) + 40:
        return False
    if dataset in GAMES:
        return same_sum(answer, reference)
    alphabet = ALPHABETS.get(dataset)
    if alphabet is None:
        return False
    if not re.fullmatch(f"(?:{alphabet})*+", answer):
        return False
    if "**" in answer and not small(answer):
        return False
    try:
        with redirect_stdout(StringIO()):  # some scorers talk
            return bool(scorer.score_answer(answer, entry) >= FULL)
    except Exception:  # the capture point of the library's scorers: they trust what they are given
        return False


def small(formula: str) -> bool:
    """Whether a formula can be computed with: its powers are written out, and not too high."""

    def power(node: ast.AST) -> int:
        match node:
            case ast.BinOp(left=base, op=ast.Pow(), right=exponent):
                return written(exponent) * power(base)
        return max((power(child) for child in ast.iter_child_nodes(node)), default=1)

    def written(exponent: ast.AST) -> int:
        """How high a power goes at most: by a number, or by a name, which stays a name."""
        match exponent:
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return written(inner)
            case ast.Constant(value=int(number) | float(number)):
                return max(1, math.ceil(number))
            case ast.Name():
                return 1
        raise ValueError(formula)

    try:
        return power(ast.parse(formula.strip(), mode="eval").body) <= LARGEST_POWER
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def same_sum(answer: str, reference: str) -> bool:
    """Whether an expression has the value of another and uses the same numbers."""
    if not re.fullmatch(r"[0-9+\-*/() ]*", answer):
        return False
    if sorted(re.findall("[0-9]+", answer)) != sorted(re.findall("[0-9]+", reference)):
        return False
    try:
        return value(answer) == value(reference)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return False


def value(expression: str) -> Fraction:
    """The value of a sum; ValueError for anything else."""

    def walk(node: ast.expr) -> Fraction:
        match node:
            case ast.Constant(value=int(number)):
                return Fraction(number)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -walk(operand)
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in OPERATORS:
                return OPERATORS[type(sign)](walk(left), walk(right))
        raise ValueError(expression)

    return walk(ast.parse(expression.strip(), mode="eval").body)


def plain(text: str) -> str:
    """Text with its gaps made alike; line breaks are kept, for some answers are grids."""
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())


def same_numbers(answer: str, reference: str) -> bool:
    """Whether two texts are the same numbers, up to how they are written: 0.50 and 0.5."""
    one, other = answer.split(","), reference.split(",")
    return len(one) == len(other) and all(
        (a := number(mine)) is not None and a == number(theirs)
        for mine, theirs in zip(one, other, strict=True)
    )


def number(text: str) -> Fraction | None:
    return Fraction(text.strip()) if NUMBER.fullmatch(text.strip()) else None
