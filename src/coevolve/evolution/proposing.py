"""From what engineers say to candidates that can be probed."""

import math
import time
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, TypeVar

from coevolve.core.leaving import beside
from coevolve.domains.knobs import Knobs
from coevolve.engineers.base import Engineer, Proposal, View
from coevolve.engineers.reach import apply
from coevolve.evolution.backtest import Candidate
from coevolve.harness.budget import Spent
from coevolve.harness.rules import MOST_PROPOSALS
from coevolve.policies.base import used

Said = TypeVar("Said")
Make = Callable[[], Engineer]

MOST_KNOBS, MOST_CHARACTERS = 2_000, 1_000
"""What is recorded of an engineer in a round."""


def propose(
    engineers: Callable[[str], Mapping[str, Make]],
    checkpoint: str,
    view: View,
    seed: int,
    patience_s: float,
) -> dict[str, Any]:
    """The proposals of every engineer of this checkpoint, as they are recorded."""
    began = time.monotonic()
    found = {
        name: proposed(make, view, seed, patience_s) for name, make in engineers(checkpoint).items()
    }
    every = [one for proposals in found.values() for one in proposals]
    spent = Spent(
        tokens=sum(one.tokens for one in every),
        money=sum(one.money for one in every),
        seconds=time.monotonic() - began,
    )
    return {
        "note": view.note,
        "proposals": {name: list(map(recordable, said)) for name, said in found.items()},
        "spent": spent.model_dump(),
    }


def waited_for(work: Callable[[], list[Said]], patience_s: float) -> tuple[list[Said], str]:
    """What an engineer says, or why it says nothing: it broke, or did not answer in time.

    The thread of one that never answers is left behind; it ends with the run.
    """
    found: list[Said] = []
    failures: list[str] = []

    def answer() -> None:
        try:
            found.extend(work())
        except Exception as error:  # an engineer's failure is data; the run goes on without it
            failures.append(f"{type(error).__name__}: {error}"[:MOST_CHARACTERS])

    thread = beside(answer)
    thread.join(patience_s)
    if thread.is_alive():
        return [], f"no answer within {patience_s:g} s"
    return found, failures[0] if failures else ""


def proposed(make: Make, view: View, seed: int, patience_s: float) -> list[Proposal]:
    """The proposals of an engineer; its failure is data, also that it cannot be loaded."""
    began: list[tuple[object, int, float]] = []

    def work() -> list[Proposal]:
        engineer = make()
        policy = getattr(engineer, "policy", None)
        began.append((policy, *used(policy)))
        return engineer.propose(view, seed)

    found, failure = waited_for(work, patience_s)
    if not failure:
        return found[:MOST_PROPOSALS]
    failed = Proposal(failure=failure)
    for policy, tokens, money in began:  # what it took is counted all the same
        now = used(policy)
        failed = failed.model_copy(update={"tokens": now[0] - tokens, "money": now[1] - money})
    return [failed]


def recordable(proposal: Proposal) -> dict[str, Any]:
    """A proposal as JSON values: what is no finite number stays as a word."""
    values = proposal.model_dump(mode="json")
    values["knobs"] = {
        name[:MOST_CHARACTERS]: plain(value)
        for name, value in islice(proposal.knobs.items(), MOST_KNOBS)
    }
    return values


def plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value)[:MOST_CHARACTERS]


def candidates(proposed: Mapping[str, Any], incumbent: Knobs, reach: float) -> list[Candidate]:
    """Proposals that change something, projected onto the knob space and kept within reach; what
    comes to the same knobs counts once, for who proposed it first."""
    found: list[Candidate] = []
    for name, proposals in proposed["proposals"].items():
        for values in proposals:
            proposal = Proposal.model_validate(values)
            knobs = apply(proposal, incumbent, reach)
            known = (incumbent, *(one.knobs for one in found))
            if not proposal.failure and all(knobs.difference(one) for one in known):
                found.append(Candidate(name, knobs, proposal.explanation))
    return found
