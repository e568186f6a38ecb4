"""The noise floor: how far apart two evaluations of the same harness come out by chance alone.

The root is measured again with other draws, and trained again with other seeds. The largest
difference that this makes is what a version has to exceed.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from coevolve.core.rollout import Rollout
from coevolve.evaluation.paired import Difference
from coevolve.evolution.gate import change_of


class Noise(NamedTuple):
    """Differences that mean nothing."""

    repeats: tuple[Difference, ...]
    """The same checkpoint, other draws."""
    twins: tuple[Difference, ...]
    """The same harness, another training."""

    @property
    def floor(self) -> float:
        """The largest of them, 0 if nothing was repeated."""
        return max((abs(one.mean) for one in (*self.repeats, *self.twins)), default=0.0)

    @property
    def words(self) -> str:
        return (
            f"noise floor {self.floor:.3f}: the largest difference among {len(self.repeats)} "
            f"further evaluations and {len(self.twins)} further trainings of the root"
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "floor": self.floor,
            "words": self.words,
            "repeats": [one.as_json() for one in self.repeats],
            "twins": [one.as_json() for one in self.twins],
        }


def noise_of(
    root: Sequence[Rollout],
    repeats: Sequence[Sequence[Rollout]],
    twins: Sequence[Sequence[Rollout]],
    seed: int,
) -> Noise:
    """What repeating the root changes."""
    return Noise(
        tuple(change_of(root, again, seed) for again in repeats),
        tuple(change_of(root, again, seed) for again in twins),
    )
