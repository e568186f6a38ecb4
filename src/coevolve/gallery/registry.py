"""All scenarios by name: faults first, then gains."""

from coevolve.gallery import code, lake, math, pocket, swe
from coevolve.gallery.scenario import Scenario

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
