"""All scenarios by name: faults first, then gains."""

from coevolve.evolution.gallery import code, lake, math, pocket, swe
from coevolve.evolution.gallery.scenario import Scenario

SCENARIOS: dict[str, Scenario] = {
    one.name: one
    for one in (
        swe.LEAKING,
        code.TAMPERING,
        lake.DISCRETE,
        pocket.BREVITY,
        swe.DEBUGGING,
        swe.ECHO,
        math.FILTERED,
        lake.BONUS,
        math.CONTAMINATION,
        code.EXPLORING,
        math.BANK,
        swe.HINTS,
        pocket.CALMER,
    )
}
