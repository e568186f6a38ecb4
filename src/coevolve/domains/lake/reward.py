"""The reward: how close a valid plan comes to the optimum, and a charge for long answers."""

FLOOR = 0.3
"""What a valid plan earns however much it costs."""
UNKNOWN = 0.5
"""What a valid plan earns where the optimal cost is not known."""
ACCURACY, LENGTH = 0.8, 0.2
"""How much each weighs. The balance that follows how many answers are short is an expression for
training (docs/lake.md); what evaluations measure stays the same."""


def accuracy(cost: int, optimal_cost: int | None) -> float:
    """1 for an optimal plan, falling to 0.3 at an excess of twice the optimal cost."""
    if optimal_cost is None:
        return UNKNOWN
    excess, worst = cost - optimal_cost, 2 * optimal_cost
    if excess <= 0:
        return 1.0
    return 1.0 - (1.0 - FLOOR) * excess / worst if excess <= worst else FLOOR


def total(components: dict[str, float]) -> float:
    """The weighted sum of the components `accuracy` and `length`."""
    return ACCURACY * components["accuracy"] + LENGTH * components["length"]
