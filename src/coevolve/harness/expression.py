"""A small language for rewards: arithmetic over named numbers, and nothing else.

    accuracy + 0.2 * optimal - 0.1 * (tokens > 400)
    where(valid, accuracy, clip(0.1 * length, -0.1, 0))

Names stand for reward components and facts of a rollout, or for whole columns of them. There are
+ - * /, comparisons (1 or 0), `and`, `or`, `not`, and the functions below; dividing by 0 gives 0.
Invariant: whatever a model writes, reading it runs no code, and its value is a finite number.
"""

import ast
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coevolve.core.errors import UserError
from coevolve.core.names import did_you_mean

Numbers = NDArray[np.float64]
Values = Mapping[str, float | Numbers]

MOST_CHARACTERS, MOST_PARTS = 500, 120
LARGEST = 1e6
"""Values are cut to this size, so that no reward drowns the others."""


def divided(one: Numbers, other: Numbers) -> Numbers:
    safe = np.where(other == 0, 1.0, other)
    return np.where(other == 0, 0.0, one / safe)


TWO: dict[type[ast.AST], Callable[[Numbers, Numbers], Any]] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: divided,
    ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal,
    ast.Eq: np.equal, ast.NotEq: np.not_equal,
}  # fmt: skip
FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "min": (2, np.minimum),
    "max": (2, np.maximum),
    "abs": (1, np.abs),
    "sqrt": (1, lambda x: np.sqrt(np.maximum(x, 0.0))),
    "log1p": (1, lambda x: np.log1p(np.maximum(x, 0.0))),
    "clip": (3, lambda x, low, high: np.minimum(np.maximum(x, low), high)),
    "where": (3, lambda chosen, one, other: np.where(chosen != 0, one, other)),
}
"""Name, number of arguments, meaning."""


class Expression:
    """An expression that was read and found sound."""

    def __init__(self, text: str) -> None:
        self.text = " ".join(text.split())
        self.tree = parsed(self.text)
        named = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}
        self.names = frozenset(named - FUNCTIONS.keys())

    def check(self, known: Mapping[str, object]) -> None:
        """Refuse names that mean nothing."""
        for name in sorted(self.names - known.keys()):
            raise UserError(
                f"'{name}' in '{self.text}' is not a reward component or fact"
                f"{did_you_mean(name, list(known))} Known: {', '.join(sorted(known))}"
            )

    def value(self, values: Values) -> Numbers:
        """The result, for single numbers or for columns."""
        with np.errstate(all="ignore"):
            found = evaluated(self.tree, values)
            finite = np.nan_to_num(found, nan=0.0, posinf=LARGEST, neginf=-LARGEST)
            cut: Numbers = np.clip(finite, -LARGEST, LARGEST)
        return cut


@cache
def expression(text: str) -> Expression:
    """An expression from its text; the same text is read once."""
    return Expression(text)


def parsed(text: str) -> ast.expr:
    """The tree of a text that holds nothing but what is allowed."""
    if not text or len(text) > MOST_CHARACTERS:
        raise UserError(
            f"an expression of {len(text)} characters; write 1 to {MOST_CHARACTERS} of them"
        )
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise UserError(f"'{text[:100]}' is not an expression: {reason}") from None
    parts = sum(1 for _ in ast.walk(tree))
    if parts > MOST_PARTS:
        raise UserError(f"'{text[:100]}' has {parts} parts; at most {MOST_PARTS} are allowed")
    allowed(tree, text)
    return tree


def allowed(node: ast.expr, text: str) -> None:
    """Refuse everything but arithmetic."""
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            if number > sys.float_info.max:
                raise UserError(f"'{text[:60]}' holds a number that is too large")
            return
        case ast.Name() if node.id not in FUNCTIONS:
            return
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()):
            children = [node.left, node.right]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not()):
            children = [node.operand]
        case ast.BoolOp():
            children = node.values
        case ast.Compare(ops=[operator]) if type(operator) in TWO:
            children = [node.left, *node.comparators]
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in FUNCTIONS:
            if len(node.args) != FUNCTIONS[name][0]:
                raise UserError(
                    f"{name} in '{text[:100]}' takes {FUNCTIONS[name][0]} values, not "
                    f"{len(node.args)}"
                )
            children = node.args
        case _:
            raise UserError(
                f"'{ast.unparse(node)[:60]}' is not allowed in an expression; use numbers, names, "
                f"+ - * /, comparisons, and, or, not, {', '.join(FUNCTIONS)}"
            )
    for child in children:
        allowed(child, text)


def evaluated(node: ast.expr, values: Values) -> Numbers:
    """The value of a tree that is allowed."""
    found: Any
    match node:
        case ast.Constant():
            found = node.value
        case ast.Name():
            found = values[node.id]
        case ast.UnaryOp():
            inner = evaluated(node.operand, values)
            negative = isinstance(node.op, ast.USub)
            found = inner == 0 if isinstance(node.op, ast.Not) else -inner if negative else inner
        case ast.BoolOp():
            parts = np.broadcast_arrays(*(evaluated(part, values) != 0 for part in node.values))
            found = np.all(parts, axis=0) if isinstance(node.op, ast.And) else np.any(parts, axis=0)
        case (
            ast.BinOp(left=one, op=operator, right=other)
            | ast.Compare(left=one, ops=[operator], comparators=[other])
        ):
            found = TWO[type(operator)](evaluated(one, values), evaluated(other, values))
        case ast.Call(func=ast.Name(id=name)):
            found = FUNCTIONS[name][1](*(evaluated(argument, values) for argument in node.args))
        case _:
            raise AssertionError("the tree was checked when it was read")
    return np.asarray(found, dtype=np.float64)
