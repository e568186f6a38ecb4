"""In which order a stage sees its tasks: shuffled passes, all decided by the seed."""

import random

from coevolve.core.seeds import derive


def order(available: int, wanted: int, seed: int) -> list[int]:
    """`wanted` numbers below `available`: each pass holds every number once, in its own order."""
    found: list[int] = []
    while len(found) < wanted:
        once = list(range(available))
        random.Random(derive(seed, "order", len(found) // available)).shuffle(once)
        found += once
    return found[:wanted]
