"""A run change by change: what was seen, proposed, foretold, trained, and decided.

Invariant: every version and every generation is part of a change, and in the order of the run.
"""

from collections.abc import Sequence
from typing import NamedTuple

from coevolve.dashboard.proposals import GenerationFacts
from coevolve.dashboard.versions import VersionFacts


class Change(NamedTuple):
    """A version with what led to it, or a generation in which nothing was trained."""

    name: str
    """The number of the version, or `generation-N`."""
    one: VersionFacts | None
    generation: GenerationFacts | None
    """None for the first version, which nobody proposed."""
    parent: VersionFacts | None
    """The version that engineers looked at; where that was the first policy, the newest one that
    they knew of."""
    first: bool
    """Of its generation."""

    @property
    def title(self) -> str:
        return f"Version {self.name}" if self.one else self.name.replace("-", " ").capitalize()


def changes_of(
    versions: Sequence[VersionFacts], generations: Sequence[GenerationFacts]
) -> tuple[Change, ...]:
    """All changes, generation by generation."""
    recorded = {one.number: one for one in generations}
    grown: dict[int, list[VersionFacts]] = {number: [] for number in recorded}
    for version in versions:
        grown.setdefault(version.version.generation, []).append(version)
    found: list[Change] = []
    earlier: dict[int, VersionFacts] = {}
    newest = None
    for number in sorted(grown):
        generation, own = recorded.get(number), grown[number]
        members: Sequence[VersionFacts | None] = own or [None]
        for one in members:
            seen = generation.parent if generation else one.version.parent if one else None
            parent = newest if seen is None else earlier.get(seen, newest)
            name = str(one.number) if one else f"generation-{number}"
            found.append(Change(name, one, generation, parent, one is None or one is own[0]))
        earlier |= {version.number: version for version in own}
        newest = own[-1] if own else newest
    return tuple(found)
