"""Triggers: when a skill applies, as comparisons of diagnostics joined by `and` and `or`.

    dead_groups > 0.3 and one_value_share > 0.5
    turns.rises >= 3 or failed_longer > 1.5

A name is a diagnostic's reading of the parent. `x.change` is its change against the version that
the parent grew from; `x.rises` and `x.falls` count how many versions in a row it rose or fell, on
the way from the root to the parent. `recipe.x` is a number of the parent's recipe. Invariant: a
comparison with what is not known does not hold.
"""

import ast
import math
import re
from collections.abc import Mapping
from functools import cache

from coevolve.core.errors import UserError
from coevolve.harness.expression import Expression, expression
from coevolve.harness.recipe import Recipe

TRENDS = ("change", "rises", "falls")
NUMBERS = tuple(
    name for name, field in Recipe.model_fields.items() if field.annotation in (int, float)
)
"""Of the recipe."""
DOTTED = re.compile(rf"\b([A-Za-z_]\w*\.({'|'.join(TRENDS)})|recipe\.({'|'.join(NUMBERS)}))\b")
NOT_PLAIN = (ast.BoolOp, ast.Compare, ast.Call, ast.Not, ast.Div)
JOIN = "__"
"""Stands for the dot inside an expression, which has none."""


class Trigger:
    """A condition that was read and found sound. An empty text is none: it always holds."""

    def __init__(self, text: str) -> None:
        self.text = " ".join(text.split())
        self.expression: Expression | None = None
        if self.text:
            plain = DOTTED.sub(lambda found: found[0].replace(".", JOIN), self.text)
            self.expression = expression(plain)
            conditional(self.expression.tree, self.text)

    @property
    def names(self) -> frozenset[str]:
        """What it looks at, with dots."""
        names = self.expression.names if self.expression else frozenset[str]()
        return frozenset(name.replace(JOIN, ".") for name in names)

    @property
    def diagnostics(self) -> frozenset[str]:
        """The diagnostics behind its names."""
        return frozenset(name.partition(".")[0] for name in self.names) - {"recipe"}

    def holds(self, known: Mapping[str, float]) -> bool:
        """Whether the skill applies to what is known of a version."""
        if self.expression is None:
            return True
        values = {name.replace(".", JOIN): known.get(name, math.nan) for name in self.names}
        return bool(self.expression.value(values) > 0)


@cache
def trigger(text: str) -> Trigger:
    """A trigger from its text; the same text is read once."""
    return Trigger(text)


def conditional(node: ast.expr, text: str) -> None:
    """Refuse what could hold because something is not known."""
    match node:
        case ast.BoolOp():
            for part in node.values:
                conditional(part, text)
        case ast.Compare(ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE() | ast.Eq()]):
            # Comparisons and functions inside one turn unknowns into numbers.
            inside = [part for side in (node.left, *node.comparators) for part in ast.walk(side)]
            if any(isinstance(part, NOT_PLAIN) for part in inside):
                raise UserError(
                    f"the trigger '{text[:100]}' compares more than sums and products of "
                    "diagnostics; write `dead_groups > 0.3`"
                )
        case _:
            raise UserError(
                f"'{ast.unparse(node)[:60]}' in the trigger '{text[:100]}' is not a comparison; "
                "write comparisons such as `dead_groups > 0.3`, joined by `and` and `or`"
            )
