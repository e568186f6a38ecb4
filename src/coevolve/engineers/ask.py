"""Asking an engineer. Invariant: its failure is data, and the run goes on without it."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from coevolve.core.errors import CoevolveError, place_of
from coevolve.core.exit import beside
from coevolve.engineers.agent import AgentEngineer
from coevolve.engineers.base import Engineer, View, proposals_of
from coevolve.harness.proposal import Proposal
from coevolve.policies.base import used

Said = TypeVar("Said")
Make = Callable[[], Engineer]
"""How an engineer is made; a model is loaded no sooner than it is asked."""

MOST_PROPOSALS = 16
"""Of one engineer in one generation."""
MOST_KNOBS, MOST_CHARACTERS = 2_000, 1_000
"""What is recorded of one."""
MOST_WORDS = 300
"""Of what is said about its failures."""


def proposed(make: Make, view: View, seed: int, patience_s: float) -> list[Proposal]:
    """The proposals of an engineer; its failure is data, also that it cannot be loaded."""
    began: list[tuple[Engineer, object, int, float]] = []

    def work() -> list[Proposal]:
        engineer = make()
        policy = getattr(engineer, "policy", None)
        began.append((engineer, policy, *used(policy)))
        return proposals_of(engineer.propose(view, seed))

    def calls() -> int:
        return sum(one.called for one, *_ in began if isinstance(one, AgentEngineer))

    found, failure = waited_for(work, patience_s, calls)
    if not failure:
        asked = any(policy is not None for _, policy, _, _ in began)
        return [once_more(one) if asked else one for one in found[:MOST_PROPOSALS]]
    failed = Proposal()
    for engineer, policy, tokens, money in began:  # what it took is counted all the same
        if isinstance(engineer, AgentEngineer):
            failed = engineer.give_up()
        else:
            now = used(policy)
            failed = Proposal(tokens=now[0] - tokens, money=now[1] - money)
    return [failed.model_copy(update={"failure": failure, "again": True})]


def once_more(said: Proposal) -> Proposal:
    """What a model said: where that cannot be used, it may say something else the next time."""
    return said.model_copy(update={"again": True}) if said.failure else said


def waited_for(
    work: Callable[[], list[Said]], patience_s: float, calls: Callable[[], int]
) -> tuple[list[Said], str]:
    """What an engineer says, or why it says nothing: it broke, or did not answer in time. One with
    tools has that time for every call.

    The thread of one that never answers is left behind; it ends with the run.
    """
    found: list[Said] = []
    failures: list[str] = []

    def answer() -> None:
        try:
            found.extend(work())
        except (Exception, SystemExit) as error:  # its failure is data; the run goes on without it
            known = isinstance(error, CoevolveError)  # its message says it all
            words = str(error) if known else f"{type(error).__name__}: {error}{place_of(error)}"
            failures.append(words[:MOST_CHARACTERS])

    thread, made = beside(answer), -1
    while thread.is_alive() and (now := calls()) > made:
        made = now
        thread.join(patience_s)
    if thread.is_alive():
        return [], f"no answer within {patience_s:g} s; a larger patience_s waits longer"
    return found, failures[0] if failures else ""


def recordable(proposal: Proposal) -> Proposal:
    """A proposal as JSON values: what is no finite number stays as a word."""
    patch = proposal.patch
    if patch is None or not isinstance(patch.value, Mapping):
        return proposal
    value = {
        str(name)[:MOST_CHARACTERS]: plain(number)
        for name, number in islice(patch.value.items(), MOST_KNOBS)
    }
    return proposal.model_copy(update={"patch": patch.model_copy(update={"value": value})})


def plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value)[:MOST_CHARACTERS]


def unusable(proposals: Mapping[str, Sequence[Proposal]]) -> list[str]:
    """Which engineers said what cannot be used, and why."""
    found = []
    for name, said in proposals.items():
        if failures := [one.failure for one in said if one.failure]:
            count = f"{len(failures)} of {len(said)} proposals cannot be used"
            found.append(f"{name}: {count}: {'; '.join(dict.fromkeys(failures))}"[:MOST_WORDS])
    return found
