"""What a scenario of the gallery is: a root, one patch of it, and whether keeping it is a mistake.

Invariant: a scenario says nothing of how it is to be judged. It brings a domain, a policy and a
patch; every check that it meets is the one that any run meets.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from coevolve.domains.base import Domain
from coevolve.engines.base import Engine
from coevolve.gallery.engine import MixtureEngine
from coevolve.gallery.mixture import FILE, Mixture, MixturePolicy, Scripts, load, scripts_of
from coevolve.harness.plan import Plan
from coevolve.policies.base import Policy
from coevolve.store.gauge import Gauge, gauge_of

Score = Literal["valid", "reward", "learned"]
"""What a loop that only looks at the score looks at: the valid rate on held-out tasks; the mean
reward on them, by each version's own reward; or the mean reward of what training learned from."""


Parts = tuple[Gauge, Engine]
"""What a run is made with."""


class Scenario(NamedTuple):
    """One exhibit."""

    name: str
    fault: bool
    """Whether keeping the patch is a mistake; otherwise it is a gain that must be kept."""
    what: str
    """The fault, or the gain, in a few words."""
    patch: Mapping[str, Any]
    plan: Mapping[str, Any]
    """Of the run, as in a TOML file."""
    parts: Callable[[Plan], Parts]
    score: Score = "valid"


TREE = {
    "versions": 2, "start_from": "base", "accept": "better", "factors": ("all",), "learn": True,
    "engineers": ("gallery",),
}  # fmt: skip
"""A run with one patch."""
RECIPE: dict[str, Any] = {
    "steps": 8, "tasks": 8, "group": 8, "learning_rate": 0.5, "max_tokens": 4096,
}  # fmt: skip
"""Of mixtures, whose rate is that of the logits of scripts."""


def plan_of(domain: str, dev: int = 60, gate: int = 120, **changes: Any) -> dict[str, Any]:
    """The plan of a mixture's run; what is not named is as in any tree."""
    recipe = {**RECIPE, **changes.pop("recipe", {})}
    target = {
        "dev": dev, "gate": gate, "clean": gate, "temperature": 1.0, "max_tokens": 4096,
        "knobs": changes.pop("target", {}),
    }  # fmt: skip
    own = {"domain": domain, "policy": "mixture", "reach": 1.0, "recipe": recipe, "target": target}
    return {**TREE, **own, **changes}


def mixing(
    make: Callable[[Plan], Domain], shares: Mapping[str, float], offered: Scripts | None = None
) -> Callable[[Plan], Parts]:
    """A mixture of scripts as the policy: of those that are offered, or else of the domain's."""

    def parts(plan: Plan) -> Parts:
        domain, start = make(plan), Mixture(shares=dict(shares))
        scripts: Scripts = offered or (lambda _memory: scripts_of(domain))

        def read(name: str) -> tuple[Policy, str]:
            known = load(Path(name)) if (Path(name) / FILE).is_file() else start
            return MixturePolicy(name, known, scripts), ""

        return Gauge(plan, domain, read), MixtureEngine(domain, scripts, start)

    return parts


def training(plan: Plan) -> Parts:
    """A language model, trained by TRL."""
    from coevolve.engines.trl.engine import TrlEngine

    return gauge_of(plan), TrlEngine()
