"""coevolve runs the outer loop of LLM reinforcement learning.

What others import: `run` and `resume` a `Plan`, `read` what a run has come to, and open its test
split (`final`); write an `Engineer` that proposes a `Patch` from a `View`, a `Domain`
(`SimpleDomain` does most of it), or an `Engine`. Nothing heavy is imported before it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coevolve.domains.base import Domain
    from coevolve.domains.simple import SimpleDomain
    from coevolve.engineers.base import Engineer, View
    from coevolve.engines.base import Engine
    from coevolve.harness.patch import Patch
    from coevolve.harness.plan import Plan
    from coevolve.start import Outcome, final, read, resume, run

__version__ = "0.1.0"
__all__ = [
    "Domain", "Engine", "Engineer", "Outcome", "Patch", "Plan", "SimpleDomain", "View", "final",
    "read", "resume", "run",
]  # fmt: skip

_PLACES = {
    "Domain": "domains.base",
    "SimpleDomain": "domains.simple",
    "Engineer": "engineers.base",
    "View": "engineers.base",
    "Engine": "engines.base",
    "Patch": "harness.patch",
    "Plan": "harness.plan",
    "Outcome": "start",
    "final": "start",
    "read": "start",
    "resume": "start",
    "run": "start",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for, no sooner."""
    if name not in _PLACES:
        raise AttributeError(f"module 'coevolve' has no attribute '{name}'")
    return getattr(import_module(f"coevolve.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
