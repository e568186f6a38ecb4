"""The reward: how close a valid plan comes to the optimum, and a charge for long answers.

The weight between the two follows how many recent answers are short. That balance is a value of
its own (`LengthBalance`), never hidden state, so that it can be saved, resumed and compared.
"""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from coevolve.domains.simple import SHORT_TOKENS

FLOOR = 0.3
"""What a valid plan earns however much it costs."""
UNKNOWN = 0.5
"""What a valid plan earns where the optimal cost is not known."""


def accuracy(cost: int, optimal_cost: int | None) -> float:
    """1 for an optimal plan, falling to 0.3 at an excess of twice the optimal cost."""
    if optimal_cost is None:
        return UNKNOWN
    excess, worst = cost - optimal_cost, 2 * optimal_cost
    if excess <= 0:
        return 1.0
    return 1.0 - (1.0 - FLOOR) * excess / worst if excess <= worst else FLOOR


class LengthBalance(BaseModel):
    """How much accuracy and length weigh, from a moving average of the share of short answers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    short_share: float = Field(default=1.0, ge=0, le=1)
    """Moving average of the share of answers of at most 1,500 tokens."""
    memory: float = Field(default=0.9, ge=0, lt=1)
    """How much of the average one update keeps."""

    def weights(self) -> tuple[float, float]:
        """(accuracy, length): (0.5, 0.5) up to a share of 0.5, (0.8, 0.2) from 0.9 on."""
        step = min(max((self.short_share - 0.5) / 0.4, 0.0), 1.0)
        return 0.5 + 0.3 * step, 0.5 - 0.3 * step

    def update(self, tokens: Sequence[int]) -> "LengthBalance":
        """The balance after a batch of answers with these lengths."""
        if not tokens:
            return self
        share = sum(count <= SHORT_TOKENS for count in tokens) / len(tokens)
        average = self.memory * self.short_share + (1 - self.memory) * share
        return self.model_copy(update={"short_share": average})

    def reward(self, components: dict[str, float]) -> float:
        """The weighted sum of the components `accuracy` and `length`."""
        accuracy_weight, length_weight = self.weights()
        return accuracy_weight * components["accuracy"] + length_weight * components["length"]
