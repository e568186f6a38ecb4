"""From a diagnosis to designs: engineers look at the lineage and propose, the program screens.

Invariant: a design is one patch of the parent's harness that can be trained; where every version
begins with the same policy, one that was never tried. An engineer's failure is data.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from coevolve.backtests.reward import check_names
from coevolve.core.errors import UserError
from coevolve.core.names import lookup
from coevolve.core.seeds import derive
from coevolve.diagnostics.health import Diagnosis
from coevolve.diagnostics.locked import Locked
from coevolve.domains.knobs import Knobs
from coevolve.engineers.ask import proposed, recordable, unusable
from coevolve.engineers.base import View
from coevolve.engineers.reach import apply
from coevolve.engineers.view import refused_before, view_of
from coevolve.harness.budget import Spent
from coevolve.harness.harness import Harness
from coevolve.harness.patch import Patch, flat, patched
from coevolve.harness.proposal import Proposal
from coevolve.harness.rules import MOST_REVISIONS
from coevolve.loop.run import Run
from coevolve.loop.supervise import Stopped, approve
from coevolve.store.paths import generation_place
from coevolve.store.phases import Diagnose, Propose, Tried

Foretell = Callable[[Patch], dict[str, Any]]
"""What a patch would do to stored rollouts, for engineers that ask."""


class Design(NamedTuple):
    """A patch that can be tried."""

    patch: Patch
    harness: Harness
    author: str
    skill: str = ""
    asked: Any = None
    """The value that was proposed, where reach or projection made another of it."""


def diagnose(run: Run, generation: int, parent: int | None) -> Diagnose:
    """Every diagnostic over all versions so far."""

    def work() -> Diagnose:
        health = run.health()
        alarms = [alarm.words for alarm in health.alarms if alarm.version == parent]
        return Diagnose(
            parent=parent,
            failures=run.lineage.failures,
            alarms=tuple(alarms),
            findings=tuple(health.findings),
        )

    found = run.phase(generation_place(generation), "diagnose", work)
    for words in found.alarms if not run.plan.only_knobs else ():
        run.say(f"version {parent}: {words}")
    return found


def propose(
    run: Run, generation: int, found: Diagnose, foretell: Foretell
) -> tuple[list[Design], list[Tried]]:
    """What may be tried next, in order of preference, and what cannot be; revised as often as a
    person asks for it."""
    place = generation_place(generation)
    note = approve(run, place, "diagnosis", {"parent": found.parent})
    note = "\n".join(filter(None, (run.note, note)))
    run.note = ""
    view = view_of(run.lineage, run.gauge.domain, generation, found, note)._replace(
        backtest=foretell
    )
    seed = derive(run.plan.seed, "engineer", generation - 1)
    for attempt in range(MOST_REVISIONS + 1):
        drawn = derive(seed, attempt) if attempt else seed
        name = f"propose-{attempt}" if attempt else "propose"
        recorded = run.phase(place, name, partial(asked, run, found.parent, view, drawn))
        for words in unusable(recorded.proposals):
            run.say(f"generation {generation}: {words}")
        designs, refused = screen(run, found.parent, view.incumbent, recorded.proposals)
        said = described(designs, view.incumbent)
        question = {
            "proposals": said, "refused": [one.refused for one in refused], "attempt": attempt,
        }  # fmt: skip
        always = bool(run.plan.asks_after) and run.lineage.failures >= run.plan.asks_after
        note = approve(run, place, "design", question, always)
        if not note and (designs or run.plan.start_from == "parent"):
            return designs, refused
        if not note:  # the same harness from the same policy would come to the same
            raise Stopped("no engineer has a patch left to try")
        returned = "\n".join(f"{name}: {words}" for name, words in said.items())
        notes = f"{note}\n{view.note}".strip()  # the newest first: a long text loses its end
        view = view._replace(note=notes, returned=returned or "nothing that can be used")
    run.say(f"generation {generation}: sent back {MOST_REVISIONS + 1} times: nothing changes")
    return [], []


def asked(run: Run, parent: int | None, view: View, seed: int) -> Propose:
    """What every engineer proposes, as it is recorded."""
    began = time.monotonic()
    checkpoint = run.paths.find(run.lineage.policy(parent))
    found: dict[str, list[Proposal]] = {}
    with Diagnosis(run.ledger.folder) as diagnosis:
        for name, make in run.team(checkpoint).items():
            # One of its own for each: what does not answer in time may still be asking.
            with Locked(diagnosis.evidence, diagnosis.locked.bounds) as locked:
                own = view._replace(ask=locked.ask)
                found[name] = proposed(make, own, seed, run.plan.patience_s)
    every = [one for proposals in found.values() for one in proposals]
    spent = Spent(
        tokens=sum(one.tokens for one in every),
        money=sum(one.money for one in every),
        seconds=time.monotonic() - began,
    )
    proposals = {name: tuple(map(recordable, said)) for name, said in found.items()}
    return Propose(note=view.note, proposals=proposals, spent=spent)


def screen(
    run: Run,
    parent: int | None,
    incumbent: Knobs,
    proposals: Mapping[str, Sequence[Proposal]],
) -> tuple[list[Design], list[Tried]]:
    """Proposals that can be tried, and why the others cannot."""
    designs: list[Design] = []
    refused: list[Tried] = []
    tried = known_harnesses(run)
    for author, listed in proposals.items():
        for one in listed:
            if one.failure or one.patch is None:
                continue
            try:
                found = designed(run, parent, incumbent, one, author)
                digest = found.harness.digest()
                if digest in tried:
                    raise UserError(f"{found.patch.factor} was tried so: {tried[digest]}")
                tried[digest] = f"by {author} before"
                designs.append(found)
            except UserError as error:
                why = f"refused, from {author}: {error}"
                refused.append(Tried(author=author, patch=one.patch, refused=why))
    return designs[: run.plan.candidates], refused


def known_harnesses(run: Run) -> dict[str, str]:
    """Harnesses that need not be tried again. Where training goes on from the parent, one that was
    used before may be used again."""
    if run.plan.start_from == "parent":
        return {}
    refused = {one.harness.digest(): "a backtest refused it" for one in refused_before(run.lineage)}
    trained = {one.harness.digest(): f"version {one.number}" for one in run.lineage.versions}
    return refused | trained


def designed(
    run: Run, parent: int | None, incumbent: Knobs, proposal: Proposal, author: str
) -> Design:
    """A proposal as a patch of the parent; a `UserError` says why it is none."""
    assert proposal.patch
    patch, asked = proposal.patch.model_copy(update={"author": author}), proposal.patch.value
    lookup("factor", patch.factor, dict.fromkeys(run.plan.factors))
    if patch.factor == "knobs":
        if not isinstance(patch.value, Mapping):
            raise UserError(f"knobs = {patch.value!r:.80}: give an object of numbers")
        knobs = apply(patch.value, incumbent, run.plan.reach)
        if not knobs.difference(incumbent):
            raise UserError("these knobs change nothing")
        patch = patch.model_copy(update={"value": dict(knobs)})
    harness = patched(run.lineage.harness(parent), patch)
    check_names(harness.reward, run.gauge.domain)
    harness.recipe.check(run.plan.processes)
    # As it was read, so that no spelling of a value hides what it is.
    patch = patch.model_copy(update={"value": flat(harness)[patch.factor]})
    cut = {} if asked == patch.value else asked
    return Design(patch, harness, author, proposal.skill, cut or None)


def described(designs: Sequence[Design], incumbent: Knobs) -> dict[str, str]:
    """Each design for a person: what was said, and all that would change."""
    found: dict[str, str] = {}
    for one in designs:
        same = sum(other.author == one.author for other in designs[: len(found)])
        changes = f"{one.patch.factor}: {one.patch.value}"
        if one.patch.factor == "knobs":
            after = incumbent.space.parse(one.patch.value)
            changes = "\n".join(
                f"{name}: {old:.4g} → {new:.4g}"
                for name, (old, new) in after.difference(incumbent).items()
            )
        name = f"{one.author} {same + 1}" if same else one.author
        found[name] = f"{one.patch.hypothesis}\n{changes}".strip()
    return found
