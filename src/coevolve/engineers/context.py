"""What a model that engineers environments is shown: modules of text, put together by name.

F failures, G guideline, H history, S own earlier explanation, T training, C cases. Invariant: the
whole keeps to its budget, and no module is crowded out by another.
"""

from collections.abc import Callable, Sequence

from coevolve.core.names import lookup
from coevolve.engineers.base import View
from coevolve.engineers.breakdown import breakdown
from coevolve.engineers.fence import cut
from coevolve.engineers.modules import (
    bookkeeping,
    cases,
    explanation,
    guideline,
    history,
    training,
)

CHARACTERS_PER_TOKEN = 4

Module = Callable[[View, int], str]
MODULES: dict[str, Module] = {
    "F": breakdown,
    "G": guideline,
    "H": history,
    "H:no-default": lambda view, budget: history(view, budget, default=False),
    "S": explanation,
    "T:bookkeeping": bookkeeping,
    "T:full": training,
    "C": cases,
}

V4 = ("F", "G", "H:no-default")
VARIANTS: dict[str, tuple[str, ...]] = {
    "V1": ("F",),
    "V2": ("F", "G"),
    "V3": ("F", "G", "H"),
    "V4": V4,
    "V5": (*V4, "S"),
    "V6": (*V4, "T:bookkeeping"),
    "V6-full-T": (*V4, "T:full"),
}
"""The paper's combinations; V6 did best there."""


def variant(name: str) -> tuple[str, ...]:
    """The modules of one of the paper's variants."""
    return lookup("context variant", name, VARIANTS)


def compose(names: Sequence[str], view: View, budget_tokens: int = 3_000) -> str:
    """The named modules one after the other, within a budget of approximate tokens.

    Each module may use an equal part; what short ones leave over goes to the longer ones.
    """
    modules = [lookup("context module", name, MODULES) for name in names]
    left = budget_tokens * CHARACTERS_PER_TOKEN - 2 * len(modules)
    texts = [module(view, left) for module in modules]
    shortest = sorted(range(len(modules)), key=lambda place: len(texts[place]))
    for done, place in enumerate(shortest):
        part = left // (len(modules) - done)
        if len(texts[place]) > part:
            texts[place] = cut(modules[place](view, part), part)
        left -= len(texts[place])
    return "\n\n".join(texts)
