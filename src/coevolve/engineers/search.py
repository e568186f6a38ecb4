"""Searches that look at no evidence: what anything cleverer has to beat.

`random-search` draws a factor and a value at random; `grid-search` goes through a list of values,
factor by factor. Both propose one patch after another that was not tried yet.
"""

import random
from collections.abc import Iterator
from typing import Any, get_args

from coevolve.core.seeds import derive
from coevolve.engineers.base import View
from coevolve.engineers.fill import digest_with
from coevolve.harness.filters import AbandonmentFilter, SpreadFilter, TopFilter, TruncationFilter
from coevolve.harness.patch import FACTORS, Patch, flat
from coevolve.harness.proposal import Proposal
from coevolve.harness.recipe import Loss, Schedule

Found = list[Patch] | list[Proposal]

MOST = 12
"""Patches at a time."""
SCALES = (0.25, 0.5, 2.0, 4.0)
"""What numbers are multiplied by, in a grid; at random, anything in between."""
SMALL = {"recipe.kl": 0.01, "recipe.entropy": 0.001}
"""What a factor that is 0 is taken for, so that it can be scaled."""
NAMED = {"recipe.loss": Loss, "recipe.schedule": Schedule}
"""Factors that are one of a few words."""
FILTERS = (SpreadFilter(), TopFilter(), TruncationFilter(), AbandonmentFilter())
WORDS = "wording."
"""Factors that are text, which nobody finds by searching."""
DRAWS = 200
"""Tries to find something new."""


class RandomSearch:
    """Draws factor and value at random."""

    name = "random-search"

    def propose(self, view: View, seed: int) -> Found:
        rng = random.Random(derive(seed, self.name, len(view.versions), len(view.refused)))
        return untried(view, (drawn(view, rng) for _ in range(DRAWS)), self.name)


class GridSearch:
    """Goes through a list of values of every factor; knobs are not in it."""

    name = "grid-search"

    def propose(self, view: View, seed: int) -> Found:
        listed = (
            (factor, value)
            for factor in view.factors
            if factor != "knobs" and not factor.startswith(WORDS)
            for value in grid(view, factor)
        )
        return untried(view, listed, self.name)


def drawn(view: View, rng: random.Random) -> tuple[str, Any]:
    """A factor, and a value for it."""
    factor = rng.choice([one for one in view.factors if not one.startswith(WORDS)])
    if factor == "knobs":
        return factor, dict(view.space.random(rng.getrandbits(40)))
    old = flat(view.parent.harness)[factor]
    if isinstance(old, int | float) and not isinstance(old, bool):
        start = old or SMALL.get(factor, 1.0)
        value = start * SCALES[0] * (SCALES[-1] / SCALES[0]) ** rng.random()
        return factor, max(1, round(value)) if isinstance(old, int) else float(f"{value:.3g}")
    return factor, rng.choice(grid(view, factor))


def grid(view: View, factor: str) -> list[Any]:
    """The values of a factor that are worth a try."""
    old = flat(view.parent.harness)[factor]
    if factor in NAMED:
        return list(get_args(NAMED[factor]))
    if factor == "filters":
        return [[], *([one.model_dump(mode="json")] for one in FILTERS)]
    if factor == "reward":
        parts = list(view.components)
        return [*parts, "valid", "optimal", *(f"reward + 0.5 * {name}" for name in parts)]
    start = old or SMALL.get(factor, 1.0)
    values = [start * scale for scale in SCALES]
    return [max(1, round(value)) for value in values] if isinstance(old, int) else values


def untried(view: View, listed: Iterator[tuple[str, Any]], author: str) -> Found:
    """The first few that can be applied and were not tried yet."""
    known = {*view.tried, None}  # none: it cannot be applied
    found: list[Patch] = []
    for factor, value in listed:
        words = f"If {FACTORS[factor][1]} is another, then it may be better: a search, no reason."
        patch = Patch(factor=factor, value=value, hypothesis=words, author=author)
        if (digest := digest_with(patch, view)) not in known:
            known.add(digest)
            found.append(patch)
        if len(found) == MOST:
            break
    return found or [Proposal(failure="everything was tried already")]
