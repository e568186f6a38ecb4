"""What a tree has come to: the best version, or the policy that it began with.

Invariant: the base policy is the best until a valid version is better than it, by the rule that
decides between versions.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from coevolve.evaluation.paired import Difference
from coevolve.evolution.promotion import Promotion

Facts = Mapping[str, Any]
"""What the gate recorded of a version."""


class Best(NamedTuple):
    """What a tree would end with now."""

    version: int | None
    """None: the base policy, without any training."""
    words: str

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


def beside_base(found: Promotion) -> dict[str, Any]:
    """A version that was judged against the base policy, as its gate records it."""
    words = found.words.removeprefix(f"{found.verdict}: ")
    return {
        "better": found.verdict == "kept",
        "words": words,
        "change": found.change.as_json(),
    }


def rate_of(gate: Facts) -> float:
    """The valid rate on gate tasks."""
    return float(gate["valid"]) / float(gate["n"])


def strongest(gates: Mapping[int, Facts]) -> list[int]:
    """Versions by their rate on gate tasks; the older of two alike first."""
    return sorted(gates, key=lambda number: (-rate_of(gates[number]), number))


def best_of(base: Facts, gates: Mapping[int, Facts]) -> Best:
    """Of valid versions, each judged against the base policy, the best; else the base policy."""
    order = strongest(gates)
    untrained = f"{rate_of(base):.1%} of {base['n']} attempts at gate tasks are valid without it"
    for number in order:
        if (beside := gates[number]["base"])["better"]:
            change = Difference(**beside["change"])
            words = f"version {number} is better than no training: {change.words}; {untrained}"
            return Best(number, words)
    first = gates[order[0]]
    return Best(
        None,
        f"no version is better than no training: {untrained}; version {order[0]}, the strongest "
        f"with {rate_of(first):.1%}: {first['base']['words']}",
    )
