"""All scenarios by name: faults first, then gains."""

from coevolve.evolution.gallery import lake, math
from coevolve.evolution.gallery.scenario import Scenario

SCENARIOS: dict[str, Scenario] = {
    one.name: one
    for one in (
        lake.DISCRETE,
        math.FILTERED,
        lake.BONUS,
        math.CONTAMINATION,
        math.BANK,
    )
}


def like(scenario: Scenario) -> list[str]:
    """Scenarios with the same root."""
    return [
        name
        for name, other in SCENARIOS.items()
        if scenario.root and other.root == scenario.root and other is not scenario
    ]
