"""Templates: how the new value of a factor follows from the old one.

Each kind is data. What it comes to for a harness is a list of values, best first; a template that
does not apply comes to none. Templates of knobs need a domain's knob space and are filled in
`engineers.fill`.
"""

import ast
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, field_validator

from coevolve.core.errors import UserError
from coevolve.core.rollout import Value
from coevolve.harness.code import is_code
from coevolve.harness.expression import expression
from coevolve.harness.filters import Filter
from coevolve.harness.harness import OWN_REWARD, Harness
from coevolve.harness.patch import flat

Text = Annotated[str, StringConstraints(min_length=1, max_length=500)]
SIGNIFICANT = 6
"""Digits of a number that a template makes."""


class Scale(Value):
    """The old number times another, within bounds."""

    kind: Literal["scale"] = "scale"
    by: float = Field(gt=0, le=1_000)
    low: float = 0.0
    high: float = 1e6


class Add(Value):
    """The old number plus another, within bounds; also for what may be 0."""

    kind: Literal["add"] = "add"
    by: float
    low: float = 0.0
    high: float = 1e6


class Put(Value):
    """A value, whatever it was before."""

    kind: Literal["set"] = "set"
    value: Any


class Append(Value):
    """One filter more, or the one of its kind with other numbers."""

    kind: Literal["append"] = "append"
    filter: Filter


class Remove(Value):
    """Without the filters of some kinds; of all kinds if none is named."""

    kind: Literal["remove"] = "remove"
    filters: tuple[str, ...] = ()


class Rewrite(Value):
    """A reward made from the old one, `{reward}`, and one of the domain's components."""

    kind: Literal["rewrite"] = "rewrite"
    text: Text
    components: tuple[str, ...] = ()
    """What `{component}` may stand for, best first: the first that the domain has. Empty: each
    component of the domain in turn."""

    @field_validator("text")
    @classmethod
    def _sound(cls, text: str) -> str:
        try:
            expression(text.replace("{reward}", "reward").replace("{component}", "reward"))
        except UserError as error:
            raise ValueError(str(error)) from None
        return text


class Drop(Value):
    """The reward without a component."""

    kind: Literal["drop"] = "drop"
    components: tuple[str, ...] = ()
    """Those to drop, each by itself; empty: each component of the domain in turn."""


class Ask(Value):
    """Knobs as an engineer of knobs proposes them."""

    kind: Literal["engineer"] = "engineer"
    name: str


class Harden(Value):
    """Every difficulty knob in use moved towards harder tasks, or easier ones below 0."""

    kind: Literal["harden"] = "harden"
    by: float = Field(ge=-1, le=1)
    """Part of the range of a knob."""


class Turn(Value):
    """One knob by name, where the domain has it."""

    kind: Literal["knob"] = "knob"
    knob: str
    change: Scale | Add | Put = Field(discriminator="kind")


Template = Annotated[
    Scale | Add | Put | Append | Remove | Rewrite | Drop | Ask | Harden | Turn,
    Field(discriminator="kind"),
]

FITTING: dict[str, tuple[str, ...]] = {
    "knobs": ("engineer", "harden", "knob", "set"),
    "reward": ("rewrite", "drop", "set"),
    "filters": ("append", "remove", "set"),
    "recipe.loss": ("set",),
}
"""Kinds that make sense for a factor; numbers take the others."""
NUMBERS = ("scale", "add", "set")


def values_of(
    template: Template, factor: str, harness: Harness, components: Mapping[str, str]
) -> list[Any]:
    """The new values of a factor other than knobs, best first; each changes something."""
    old = flat(harness)[factor]
    found: list[Any] = []
    match template:
        case Scale() | Add() | Put():
            found = [moved(template, old)]
        case Append():
            added = template.filter.model_dump(mode="json")
            found = [[*(one for one in old if one["kind"] != added["kind"]), added]]
        case Remove():
            kinds = template.filters or tuple(one["kind"] for one in old)
            found = [[one for one in old if one["kind"] not in kinds]]
        case Rewrite():
            fixed = is_code(harness.reward) and "{reward}" in template.text
            found = [] if fixed else rewritten(template, harness.reward, components)
        case Drop():
            listed = () if is_code(harness.reward) else template.components or components
            names = [name for name in listed if name in components]
            found = [without(harness.reward, name, components) for name in names]
        case _:
            raise AssertionError(f"{template.kind} is a template of knobs")
    return [value for value in found if value is not None and value != old]


def moved(change: Scale | Add | Put, old: Any) -> Any:
    """A number after a change; whole numbers stay whole, and what a change cannot take stays."""
    if isinstance(change, Put):
        return change.value
    if isinstance(old, bool) or not isinstance(old, int | float):
        return old
    new = old * change.by if isinstance(change, Scale) else old + change.by
    # What is beyond a bound already is not driven back by a step the other way.
    low, high = min(change.low, old), max(change.high, old)
    new = min(max(new, low), high)
    return round(new) if isinstance(old, int) else float(f"{new:.{SIGNIFICANT}g}")


def rewritten(template: Rewrite, reward: str, components: Mapping[str, str]) -> list[str]:
    """The texts that a template comes to; what is in the reward already is not added again."""
    old = reward if reward.isidentifier() else f"({reward})"
    text = template.text.replace("{reward}", old)
    texts = [text]
    if "{component}" in text:
        listed = [name for name in template.components if name in components][:1]
        names = listed if template.components else components
        texts = [text.replace("{component}", name) for name in names]
    if "{reward}" not in template.text:
        return texts
    known = expression(reward).names
    return [text for text in texts if names_of(text) - known]


def names_of(text: str) -> frozenset[str]:
    """The names in a reward; none if it has grown too long to be one."""
    try:
        return expression(text).names
    except UserError:
        return frozenset()


def without(reward: str, component: str, components: Mapping[str, str]) -> str | None:
    """A reward in which a component does not appear; None if nothing would be left.

    Of the domain's own reward, whose weights are its own affair, the plain sum of the others is
    left; of any other, the terms that do not name it.
    """
    if reward == OWN_REWARD:
        return " + ".join(name for name in components if name != component) or None
    terms = summands(expression(reward).tree)
    left = [
        (sign, term)
        for sign, term in terms
        if not any(isinstance(n, ast.Name) and n.id == component for n in ast.walk(term))
    ]
    if not left or len(left) == len(terms):
        return None
    text = "".join(f" {'-' if sign < 0 else '+'} {ast.unparse(term)}" for sign, term in left)
    return text.removeprefix(" + ").strip()


def summands(tree: ast.expr, sign: int = 1) -> list[tuple[int, ast.expr]]:
    """The terms of a sum with their signs."""
    match tree:
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            right = -sign if isinstance(tree.op, ast.Sub) else sign
            return [*summands(tree.left, sign), *summands(tree.right, right)]
        case ast.UnaryOp(op=ast.USub()):
            return summands(tree.operand, -sign)
    return [(sign, tree)]
