"""All scenarios by name: faults first, then gains."""

from coevolve.gallery import code, lake, math, swe
from coevolve.gallery.scenario import Scenario

SCENARIOS: dict[str, Scenario] = {
    one.name: one
    for one in (
        swe.LEAKING,
        code.TAMPERING,
        lake.DISCRETE,
        lake.BREVITY,
        swe.DEBUGGING,
        swe.ECHO,
        math.FILTERED,
        lake.BONUS,
        math.CONTAMINATION,
        code.EXPLORING,
        math.BANK,
        swe.HINTS,
        lake.CALMER,
    )
}
