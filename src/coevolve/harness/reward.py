"""What a harness makes of rewards: its expression, over what is known of each rollout.

Invariant: it follows from what is recorded of a rollout and of the steps before it, so that stored
rollouts can be rewarded anew exactly as training would have rewarded them.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from coevolve.core.rollout import Message, Outcome, StopReason
from coevolve.harness.code import check_code, is_code
from coevolve.harness.expression import Numbers, expression
from coevolve.harness.filters import Columns

FACTS = {
    "reward": "what the domain gives",
    "valid": "1 if every hard requirement holds",
    "optimal": "1 if valid and as good as the best known answer",
    "tokens": "tokens of the answer",
    "turns": "turns of the policy",
    "truncated": "1 if the token limit cut it off",
    "short": "share of answers of at most 1,500 tokens, averaged over the steps before",
}
"""Names beside the domain's reward components."""
SHORT_TOKENS = 1_500
SHORT = 1.0
"""The fact `short` before the first step, and outside training."""
REMEMBERED = 0.9
"""How much of that average a step keeps."""


class Judged(Protocol):
    """A rollout, or as much of one as is known before it is recorded."""

    @property
    def outcome(self) -> Outcome: ...
    @property
    def shaped(self) -> float | None: ...
    @property
    def stop(self) -> StopReason: ...
    @property
    def completion_tokens(self) -> int: ...
    @property
    def messages(self) -> tuple[Message, ...]: ...


def turns_of(rollout: Judged) -> int:
    return sum(turn.role == "assistant" for turn in rollout.messages)


def short_after(short: float, tokens: ArrayLike) -> float:
    """The fact `short` after a step whose answers have so many tokens."""
    share = float(np.mean(np.asarray(tokens) <= SHORT_TOKENS))
    return REMEMBERED * short + (1 - REMEMBERED) * share


def facts_of(
    rollouts: Sequence[Judged], components: Mapping[str, object], short: float = SHORT
) -> dict[str, Numbers]:
    """Every name that an expression may use, as a column; the rollouts are of one step."""
    outcomes = [rollout.outcome for rollout in rollouts]
    found = {
        name: np.array([outcome.components.get(name, 0.0) for outcome in outcomes])
        for name in components
    }
    return found | {
        "reward": np.array([outcome.reward for outcome in outcomes]),
        "valid": np.array([float(outcome.valid) for outcome in outcomes]),
        "optimal": np.array([float(outcome.optimal) for outcome in outcomes]),
        "tokens": np.array([float(rollout.completion_tokens) for rollout in rollouts]),
        "turns": np.array([float(turns_of(rollout)) for rollout in rollouts]),
        "truncated": np.array([float(r.stop is StopReason.LENGTH) for r in rollouts]),
        "short": np.full(len(rollouts), short),
    }


def check_reward(text: str, names: Mapping[str, object] | None = None) -> None:
    """Refuse a reward that cannot be computed; an expression may use these names, if they are
    known."""
    if is_code(text):
        check_code(text)
    elif names is None:
        expression(text)
    else:
        expression(text).check(names)


def names_short(text: str) -> bool:
    """Whether a reward follows from the steps before, too."""
    return "short" in text if is_code(text) else "short" in expression(text).names


def columns_of(rollouts: Sequence[Judged], groups: ArrayLike, weight: Numbers) -> Columns:
    """What filters look at; `groups` are the numbers of each one's group in its step."""
    return Columns(
        np.array(groups, dtype=np.int64),
        np.array([rollout.shaped for rollout in rollouts], dtype=np.float64),
        np.array([rollout.stop is StopReason.LENGTH for rollout in rollouts], dtype=bool),
        np.array([rollout.completion_tokens for rollout in rollouts], dtype=np.int64),
        np.array([turns_of(rollout) for rollout in rollouts], dtype=np.int64),
        weight,
    )
