"""What a harness makes of rewards: its expression, over what is known of each rollout.

Invariant: it follows from what is recorded of a rollout, so that stored rollouts can be rewarded
anew exactly as training would have rewarded them.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from coevolve.core.rollout import Rollout, StopReason
from coevolve.harness.expression import Numbers, expression
from coevolve.harness.filters import Columns

FACTS = {
    "reward": "what the domain gives",
    "valid": "1 if every hard requirement holds",
    "optimal": "1 if valid and as good as the best known answer",
    "tokens": "tokens of the answer",
    "turns": "turns of the policy",
    "truncated": "1 if the token limit cut it off",
}
"""Names beside the domain's reward components."""


def turns_of(rollout: Rollout) -> int:
    return sum(turn.role == "assistant" for turn in rollout.messages)


def facts_of(rollouts: Sequence[Rollout], components: Mapping[str, object]) -> dict[str, Numbers]:
    """Every name that an expression may use, as a column."""
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
    }


def shaped(text: str, rollouts: Sequence[Rollout], components: Mapping[str, object]) -> Numbers:
    """The rewards that training uses."""
    facts = facts_of(rollouts, components)
    found: Numbers = np.broadcast_to(expression(text).value(facts), (len(rollouts),))
    return found


def columns_of(rollouts: Sequence[Rollout], first: int, group: int) -> Columns:
    """What filters look at; `first` is the number of the first rollout in its step."""
    return Columns(
        (first + np.arange(len(rollouts))) // group,
        np.array([rollout.shaped for rollout in rollouts], dtype=np.float64),
        np.array([rollout.stop is StopReason.LENGTH for rollout in rollouts], dtype=bool),
        np.array([rollout.completion_tokens for rollout in rollouts], dtype=np.int64),
        np.array([turns_of(rollout) for rollout in rollouts], dtype=np.int64),
    )
