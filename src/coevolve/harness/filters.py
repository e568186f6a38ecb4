"""Filters: which rollouts training learns from, and how much. Those left out are recorded all the
same.

They work on columns, so that a stored training can be replayed under other filters exactly as it
would have gone. Invariant: a step's filters see that step and what they remember of earlier ones.
"""

from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from coevolve.core.errors import UserError
from coevolve.core.rollout import Value
from coevolve.harness.code import check_code
from coevolve.harness.expression import Numbers

Flags = NDArray[np.bool_]


class Columns(NamedTuple):
    """The rollouts of one step."""

    group: NDArray[np.int64]
    """Numbers; rollouts of one group share one."""
    reward: NDArray[np.float64]
    truncated: Flags
    """Cut off by the token limit."""
    tokens: NDArray[np.int64]
    """Of the answer."""
    turns: NDArray[np.int64]
    """Of the policy."""
    weight: Numbers
    """By the functions among the filters, all together."""


class SpreadFilter(Value):
    """Leaves out groups that hardly differ."""

    kind: Literal["spread"] = "spread"
    least: float = Field(default=0.05, ge=0, le=10)
    """Least standard deviation of rewards within a group."""


class TopFilter(Value):
    """Keeps the share of groups that differ most, by a threshold that follows the training."""

    kind: Literal["top"] = "top"
    share: float = Field(default=0.8, gt=0, le=1)
    """Of groups that are kept, about."""
    memory: float = Field(default=0.9, ge=0, lt=1)
    """Part of the old threshold that a step keeps."""
    warm_up: int = Field(default=5, ge=0, le=10_000)
    """Steps in which everything is kept."""


class TruncationFilter(Value):
    """Leaves out answers that were cut off."""

    kind: Literal["truncation"] = "truncation"


class AbandonmentFilter(Value):
    """Leaves out answers that gave up at once."""

    kind: Literal["abandonment"] = "abandonment"
    least_tokens: int = Field(default=4, ge=1, le=100_000)


class EchoFilter(Value):
    """Leaves out attempts that went round in circles."""

    kind: Literal["echo"] = "echo"
    most_turns: int = Field(default=50, ge=1, le=10_000)


class PythonFilter(Value):
    """Weighs what each rollout teaches by a function: 0 leaves it out, 1 leaves it as it is."""

    kind: Literal["python"] = "python"
    code: str
    """`def weight(rollout):`, a number from 0 to 10."""

    @field_validator("code")
    @classmethod
    def one_function(cls, code: str) -> str:
        try:
            check_code(code, "weight")
        except UserError as error:
            raise ValueError(str(error)) from None
        return code


Filter = Annotated[
    SpreadFilter | TopFilter | TruncationFilter | AbandonmentFilter | EchoFilter | PythonFilter,
    Field(discriminator="kind"),
]
HEAVIEST = 10.0


def codes_of(filters: tuple[Filter, ...]) -> list[str]:
    """The functions among filters."""
    return [one.code for one in filters if isinstance(one, PythonFilter)]


class Memory(Value):
    """What filters remember from step to step."""

    step: int = 0
    threshold: float = 0.0
    """Of the `top` filter."""


def weights(filters: tuple[Filter, ...], rows: Columns, memory: Memory) -> tuple[Numbers, Memory]:
    """How much each rollout of a step teaches, and what to remember for the next."""
    keep = np.ones(len(rows.reward), dtype=bool)
    threshold = memory.threshold
    for chosen in filters:
        match chosen:
            case SpreadFilter():
                keep &= spreads(rows) >= chosen.least
            case TopFilter():
                found = spreads(rows)
                cut = float(np.quantile(found, 1 - chosen.share)) if len(found) else 0.0
                old = threshold if memory.step else cut
                threshold = chosen.memory * old + (1 - chosen.memory) * cut
                if memory.step >= chosen.warm_up:
                    keep &= found >= threshold
            case TruncationFilter():
                keep &= ~rows.truncated
            case AbandonmentFilter():
                keep &= rows.tokens >= chosen.least_tokens
            case EchoFilter():
                keep &= rows.turns <= chosen.most_turns
            case PythonFilter():
                pass  # it is in `rows.weight`
    return np.where(keep, rows.weight, 0.0), Memory(step=memory.step + 1, threshold=threshold)


def spreads(rows: Columns) -> Numbers:
    """The standard deviation of rewards of each rollout's group."""
    return group_spreads(rows.group, rows.reward)


def group_spreads(group: NDArray[np.int64], values: Numbers) -> Numbers:
    """The standard deviation of each rollout's group."""
    return np.sqrt(group_means(group, (values - group_means(group, values)) ** 2))


def group_means(group: NDArray[np.int64], values: Numbers) -> Numbers:
    """The mean of each rollout's group."""
    _, place = np.unique(group, return_inverse=True)
    found: Numbers = (np.bincount(place, values) / np.bincount(place))[place]
    return found


def grouped(group: NDArray[np.int64], earned: Numbers, valid: Numbers) -> dict[str, Numbers]:
    """What functions are told of a rollout's group, as columns of a step."""
    return {
        "earned": earned,
        "group_valid": group_means(group, valid),
        "group_mean": group_means(group, earned),
        "group_spread": group_spreads(group, earned),
    }
