"""Patches: a change of exactly one factor of the harness, with what is expected of it.

Invariant: no patch can change two factors; the program compares before and after.
"""

from typing import Any, Literal

from pydantic import Field

from coevolve.core.errors import UserError
from coevolve.core.names import lookup
from coevolve.core.rollout import Value
from coevolve.harness.check import checked
from coevolve.harness.harness import Harness
from coevolve.harness.reward import check_reward

FACTORS: dict[str, tuple[str, str]] = {
    "knobs": ("environment", "the knobs of the task generator"),
    "reward": ("reward", "an expression over reward components"),
    "filters": ("data", "which rollouts are learned from"),
    "wording.system": ("wording", "a system message, in training and from then on"),
    "wording.prompt": ("wording", "the words around a task, in training and from then on"),
    "recipe.epochs": ("data", "passes over the tasks: the more, the fewer different ones"),
    "recipe.revisit": ("data", "share of groups for tasks that were half solved when last tried"),
    "recipe.redraw": (
        "data",
        "times that dead groups of a step are drawn again; steps become fewer",
    ),
    "recipe.temperature": ("sampling", "of the rollouts in training, at the first step"),
    "recipe.temperature_end": ("sampling", "the same at the last step; 0: as at the first"),
    "recipe.group": (
        "sampling",
        "rollouts per task; steps become fewer, so that as many are drawn",
    ),
    "recipe.max_tokens": ("sampling", "tokens after which an answer is cut off"),
    "recipe.learning_rate": ("optimiser", "the step size, reached in a few steps"),
    "recipe.schedule": ("optimiser", "how the step size goes on: constant, linear, cosine"),
    "recipe.iterations": ("optimiser", "updates on each batch of rollouts"),
    "recipe.clip_low": ("optimiser", "how far a probability ratio may fall"),
    "recipe.clip_high": ("optimiser", "how far it may rise"),
    "recipe.kl": ("optimiser", "weight of the divergence from where its training starts"),
    "recipe.entropy": ("optimiser", "weight of the entropy bonus"),
    "recipe.loss": ("optimiser", "which of GRPO's variants"),
}
"""What may change, with its layer and its meaning. Steps and tasks per step are the budget of a
comparison and not among them."""


class Patch(Value):
    """One change, and why."""

    factor: str
    value: Any
    """The new value of the factor, whole."""
    hypothesis: str = Field(min_length=1, max_length=1_000)
    """If we change X, then Y improves, because Z."""
    metric: str = "valid"
    """What is expected to move: valid, optimal, reward, or the name of a diagnostic."""
    direction: Literal["up", "down"] = "up"
    least: float = Field(default=0.0, ge=0)
    """The criterion: by how much the metric must move at least."""
    author: str = ""

    @property
    def frozen(self) -> tuple[str, ...]:
        """The factors that stay as they are."""
        return tuple(name for name in FACTORS if name != self.factor)


def patched(harness: Harness, patch: Patch) -> Harness:
    """The harness with a patch in it."""
    lookup("factor", patch.factor, FACTORS)
    values = harness.model_dump(mode="json")
    inner, name = values, patch.factor
    if "." in name:
        part, name = name.split(".")
        inner = values[part]
    inner[name] = patch.value
    after = checked(Harness, values, f"the patch of {patch.factor}")
    check_reward(after.reward)
    if (changed := changes(harness, after)) != [patch.factor]:
        what = ", ".join(changed) or "nothing"
        raise UserError(f"a patch of {patch.factor} must change it alone; this changes {what}")
    return after


def changes(before: Harness, after: Harness) -> list[str]:
    """The factors, and whatever else, in which two harnesses differ."""
    old, new = flat(before), flat(after)
    return [name for name in old if old[name] != new[name]]


def flat(harness: Harness) -> dict[str, Any]:
    """Every setting by its dotted name."""
    values = harness.model_dump(mode="json")
    inner = {part: values.pop(part) for part in ("wording", "recipe")}
    return values | {
        f"{part}.{name}": value for part, own in inner.items() for name, value in own.items()
    }
