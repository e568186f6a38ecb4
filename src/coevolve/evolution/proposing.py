"""From what engineers say to candidates that can be probed."""

from collections.abc import Callable, Mapping
from typing import Any

from coevolve.domains.knobs import Knobs
from coevolve.engineers.base import Engineer, Proposal, View
from coevolve.engineers.reach import apply
from coevolve.evolution.backtest import Candidate


def propose(
    engineers: Callable[[str], Mapping[str, Engineer]], checkpoint: str, view: View, seed: int
) -> dict[str, Any]:
    """The proposals of every engineer of this checkpoint, as they are recorded."""
    return {
        name: [proposal.model_dump(mode="json") for proposal in engineer.propose(view, seed)]
        for name, engineer in engineers(checkpoint).items()
    }


def candidates(proposed: Mapping[str, Any], incumbent: Knobs, reach: float) -> list[Candidate]:
    """Proposals that change something, projected onto the knob space and kept within reach."""
    found = []
    for name, proposals in proposed.items():
        for values in proposals:
            proposal = Proposal.model_validate(values)
            knobs = apply(proposal, incumbent, reach)
            if not proposal.failure and knobs.difference(incumbent):
                found.append(Candidate(name, knobs, proposal.explanation))
    return found
