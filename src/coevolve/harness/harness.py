"""The harness: everything on the training side that is not weights, as one value.

Invariant: two harnesses are the same exactly if their digests are.
"""

import json
from typing import Any

from coevolve.core.rollout import Value
from coevolve.core.seeds import digest
from coevolve.harness.filters import Filter
from coevolve.harness.recipe import Recipe
from coevolve.harness.wording import Wording

OWN_REWARD = "reward"
"""The expression that leaves a domain's reward as it is."""


class Harness(Value):
    """How a version is trained."""

    knobs: dict[str, float] = {}
    """Of the domain's generator; those not named have their defaults."""
    reward: str = OWN_REWARD
    """An expression over the domain's reward components and facts of a rollout."""
    filters: tuple[Filter, ...] = ()
    wording: Wording = Wording()
    """How the policy is asked, in training and from then on."""
    recipe: Recipe = Recipe()

    def digest(self) -> str:
        """A hash of the content."""
        values: dict[str, Any] = self.model_dump(mode="json")
        return digest(json.dumps(values, sort_keys=True)).hex()
