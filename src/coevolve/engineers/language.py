"""All that a patch may say: factors with their ranges, filters, losses, functions.

Invariant: read off the models that check patches, so that nothing is told which is not so.
"""

from typing import Any, get_args

from coevolve.harness.code import GROUPED, KNOWN, MODULES
from coevolve.harness.expression import FUNCTIONS
from coevolve.harness.filters import Filter
from coevolve.harness.patch import FACTORS
from coevolve.harness.recipe import Recipe

BOUNDS = {
    "minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most",
    "exclusiveMaximum": "below",
}  # fmt: skip


def ranged(factor: str) -> str:
    """What values a factor may take, in words; empty where they are told elsewhere."""
    if not factor.startswith("recipe."):
        told = {
            "filters": "a list of filters",
            "reward": "an expression, or Python, as text",
            "wording.prompt": "text with {task} in it, or Python `def prompt(task)` that makes "
            'it of task["text"] and task["labels"]',
        }
        return told.get(factor, "")
    return limits(Recipe.model_json_schema()["properties"][factor.removeprefix("recipe.")])


def limits(field: dict[str, Any]) -> str:
    """The range of one number, or the words that it may be."""
    if "enum" in field:
        return f"one of {', '.join(field['enum'])}"
    kind = {"integer": "a whole number", "number": "a number"}.get(field.get("type", ""), "")
    bounds = [f"{words} {field[name]:g}" for name, words in BOUNDS.items() if name in field]
    return " ".join([kind, ", ".join(bounds)]).strip()


def filters() -> list[str]:
    """Every kind of filter with its parameters."""
    found = []
    for model in get_args(get_args(Filter)[0]):
        schema = model.model_json_schema()
        fields = {name: one for name, one in schema["properties"].items() if name != "kind"}
        told = "".join(
            f', "{name}": {one.get("default", "...")} ({limits(one) or "text"})'
            for name, one in fields.items()
        )
        kind = schema["properties"]["kind"]["const"]
        found.append(f'- {{"kind": "{kind}"{told}}}: {(model.__doc__ or "").strip().lower()}')
    return found


def functions() -> str:
    """What expressions are made of."""
    named = ", ".join(f"{name} ({count})" for name, (count, _) in FUNCTIONS.items())
    return (
        "+ - * /, comparisons (1 or 0), `and`, `or`, `not`, and functions with so many arguments: "
        f"{named}. where(c, a, b) is a if c is not 0. Dividing by 0 gives 0."
    )


def python() -> str:
    """What rewards and weights in Python are given."""
    known, grouped = (
        "; ".join(f"{name}: {meaning}" for name, meaning in names.items())
        for names in (KNOWN, GROUPED)
    )
    return (
        "A reward may also be Python: `def reward(rollout): ... return <number>`, beside it only "
        f"functions, constants and imports of {', '.join(MODULES)}. The rollout is a dict with the "
        f"names above, and {known}. It runs in a sandbox, one rollout at a time, and must give the "
        "same for the same rollout. The code of a `python` filter is likewise `def "
        "weight(rollout)`, a number from 0 to 10 that the rollout's advantage is multiplied by: 0 "
        f"leaves it out, and 1 should be the mean. It also knows {grouped}."
    )


def described(factor: str) -> str:
    """A factor: its layer, meaning and range."""
    layer, meaning = FACTORS[factor]
    told = ranged(factor)
    return f"{layer}; {meaning}{f'; {told}' if told else ''}"
