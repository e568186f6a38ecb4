"""The clean room: whether a gain on the gate holds on fresh tasks behind shut doors.

A version that has found, remembered or forced its answers has them on the gate and not there.
Invariant: no word is asked for what happened; a gain that is only on the gate is not valid, even if
no diagnostic knows why.
"""

from scipy.stats import norm

from coevolve.evaluation.difference import TAIL, Difference
from coevolve.evaluation.spread import measured
from coevolve.harness.diagnostic import Alarm

CLEAN_ROOM = "clean_room"
APART = 0.05
"""By more than this, and more than chance, a gain has to be smaller in the clean room."""


def parted(version: int, gate: Difference, clean: Difference) -> Alarm | None:
    """The alarm for a version whose gain on the gate is not in the clean room;
    None where it is. Both are gains over the same policy."""
    gap = gate.mean - clean.mean
    error = (measured(gate) ** 2 + measured(clean) ** 2) ** 0.5
    if gap - float(norm.isf(TAIL)) * error <= APART:
        return None
    return Alarm(
        diagnostic=CLEAN_ROOM, layer="version", version=version, level="critical", value=gap,
        threshold=APART, direction="above", n=gate.n + clean.n, blocks=True,
    )  # fmt: skip
