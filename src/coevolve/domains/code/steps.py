"""Extra steps around the core of a task: what is done to its input before, to its result after."""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from coevolve.domains.code.template import Parameters, Template, filled, worded


class Step(NamedTuple):
    draw: Callable[[random.Random], Parameters]
    statement: str
    line: str
    """An assignment to `it`, which is the first argument or the result."""


MARKS = "abcdefgh"
BEFORE = {
    "affine": Step(
        lambda rng: {"a": rng.randint(2, 9), "b": rng.randint(1, 20), "m": rng.randint(30, 300)},
        "replace every number x of the list by ({a} * x + {b}) modulo {m} (from 0 to {m} - 1)",
        "it = [(<<a>> * x + <<b>>) % <<m>> for x in it]",
    ),
    "drop": Step(
        lambda rng: {"k": rng.randint(2, 7)},
        "remove all numbers that are divisible by {k} from the list",
        "it = [x for x in it if x % <<k>> != 0]",
    ),
    "position": Step(
        lambda rng: {"c": rng.randint(2, 15)},
        "add {c} times its position, counted from 0, to every number of the list",
        "it = [x + <<c>> * i for i, x in enumerate(it)]",
    ),
    "differences": Step(
        lambda rng: {"c": rng.randint(1, 5)},
        "replace the list by the differences of each number but the first minus {c} times the one "
        "before it (the list gets one shorter; an empty one stays empty)",
        "it = [b - <<c>> * a for a, b in zip(it, it[1:])]",
    ),
}
AFTER = {
    "int": {
        "scale": Step(
            lambda rng: {"a": rng.randint(2, 9), "b": rng.randint(1, 99)},
            "multiply the result by {a} and add {b}",
            "it = it * <<a>> + <<b>>",
        ),
        "square": Step(
            lambda rng: {"b": rng.randint(1, 99), "m": rng.randint(1_000, 9_999)},
            "square the result, add {b} and take that modulo {m}",
            "it = (it * it + <<b>>) % <<m>>",
        ),
    },
    "text": {
        "turn": Step(
            lambda rng: {"mark": rng.choice("!?%&=")},
            "turn the result around and put `{mark}` behind it",
            "it = it[::-1] + <<mark>>",
        ),
        "swap": Step(
            lambda rng: dict(zip(("a", "b"), rng.sample(MARKS, 2), strict=True)),
            "replace every `{a}` of the result by `{b}{b}`",
            "it = it.replace(<<a>>, <<b>> * 2)",
        ),
    },
    "ints": {
        "scale": Step(
            lambda rng: {"a": rng.randint(2, 9), "b": rng.randint(1, 99)},
            "multiply every number of the result by {a} and add {b} to it",
            "it = [x * <<a>> + <<b>> for x in it]",
        ),
        "rotate": Step(
            lambda rng: {"c": rng.randint(1, 3)},
            "move the first {c} numbers of the result to its end (all, if there are fewer)",
            "it = it[<<c>>:] + it[:<<c>>]",
        ),
    },
}


def draw_steps(rng: random.Random, template: Template, count: int) -> list[dict[str, Any]]:
    """Steps for a task, those before the core first."""
    found = []
    any_list = template.steps and template.takes[0].kind == "ints"
    for _ in range(count):
        before = any_list and rng.random() < 0.5
        known = BEFORE if before else AFTER[template.gives]
        name = rng.choice(list(known))
        when = "before" if before else "after"
        found.append({"when": when, "name": name, "parameters": known[name].draw(rng)})
    return sorted(found, key=lambda step: str(step["when"]) == "after")


def find_step(step: dict[str, Any], gives: str) -> Step:
    known = BEFORE if step["when"] == "before" else AFTER[gives]
    return known[step["name"]]


def sentences(steps: list[dict[str, Any]], when: str, gives: str) -> list[str]:
    """The steps of one side, in words."""
    return [
        worded(find_step(step, gives).statement, step["parameters"])
        for step in steps
        if step["when"] == when
    ]


def source_of(
    template: Template, parameters: Parameters, steps: list[dict[str, Any]], core: str
) -> str:
    """A whole solution: the function `solve` around a core."""
    names = ", ".join(argument.name for argument in template.takes)
    first = template.takes[0].name
    lines = {"before": [], "after": []}  # type: dict[str, list[str]]
    for step in steps:
        line = filled(find_step(step, template.gives).line, step["parameters"])
        lines[step["when"]].append(line)
    body = []
    if lines["before"]:
        body += [f"it = {first}", *lines["before"], f"{first} = it"]
    body += [f"it = core({names})", *lines["after"], "return it"]
    inner = "\n".join(f"    {line}" for line in body)
    return f"{filled(core, parameters)}\n\ndef solve({names}):\n{inner}\n"
