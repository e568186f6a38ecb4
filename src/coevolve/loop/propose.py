"""From a diagnosis to designs: engineers look at the lineage and propose, the program screens.

Invariant: a design is one patch of the parent's harness that can be trained; where every version
begins with the same policy, one that was never tried. An engineer's failure is data.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from coevolve.backtests.reward import check_names
from coevolve.core.errors import KnobError, UserError
from coevolve.core.names import lookup
from coevolve.core.rollout import Rollout
from coevolve.core.seeds import derive
from coevolve.diagnostics.connection import Locked
from coevolve.diagnostics.health import Diagnosis, readings_alone
from coevolve.domains.knobs import KnobSpace, is_number
from coevolve.engineering.describe import described
from coevolve.engineering.table import is_table
from coevolve.engineers.ask import MOST_WORDS, proposed, recordable, unusable
from coevolve.engineers.base import View
from coevolve.engineers.model import unknown
from coevolve.engineers.reach import apply, evenly
from coevolve.engineers.view import refused_before, view_of
from coevolve.harness.budget import Spent
from coevolve.harness.harness import Harness
from coevolve.harness.patch import FACTORS, Patch, flat, patched
from coevolve.harness.proposal import Proposal
from coevolve.harness.rules import MOST_REVISIONS
from coevolve.loop.measure import spent_on
from coevolve.loop.run import Run
from coevolve.loop.supervise import Stopped, approve
from coevolve.store.cells import cells_of
from coevolve.store.paths import generation_place
from coevolve.store.phases import Diagnose, Propose, Tried
from coevolve.store.spent import spent_so_far

Foretell = Callable[[Patch, int], dict[str, Any]]
"""What a patch of a version would do to stored rollouts, for engineers that ask."""
MOST_TOLD = 3
"""Patches that cannot be tried, of which a line of the run says why."""


class Design(NamedTuple):
    """A patch that can be tried."""

    patch: Patch
    harness: Harness
    author: str
    skill: str = ""
    asked: Any = None
    """The value that was proposed, where reach or projection made another of it."""
    parent: int | None = None
    """What it is a patch of; None: the version that was diagnosed."""


def diagnose(run: Run, generation: int, parent: int | None) -> Diagnose:
    """Every diagnostic over all versions so far."""

    def work() -> Diagnose:
        health, began = run.health(), time.monotonic()
        rollouts = explore(run, generation, parent)
        alarms = [alarm.words for alarm in health.alarms if alarm.version == parent]
        return Diagnose(
            parent=parent,
            failures=run.lineage.failures,
            alarms=tuple(alarms),
            findings=tuple(health.findings),
            explored=tuple(cells_of(rollouts)),
            spent=spent_on(rollouts, began),
        )

    found = run.phase(generation_place(generation), "diagnose", work)
    for words in found.alarms if not run.plan.only_knobs else ():
        run.say(f"version {parent}: {words}")
    return found


def explore(run: Run, generation: int, parent: int | None) -> list[Rollout]:
    """The parent on a few tasks of kinds that are hardly trained on: nobody can want what nobody
    has seen."""
    plan, gauge, harness = run.plan, run.gauge, run.lineage.harness(parent)
    if not plan.explores:
        return []
    space = gauge.domain.space.held(plan.hold, harness.knobs)
    knobs = evenly(space.parse(harness.knobs), (task.bucket for task in gauge.dev))
    if knobs is None:
        return []
    few = plan.backtest.model_copy(update={"tasks": plan.explore})
    place = run.paths.probes(parent, f"{generation:02d}-explored")
    policy = run.lineage.policy(parent)
    try:
        return gauge.probe(policy, knobs, few, harness.recipe, generation - 1, place)
    except KnobError:  # these kinds cannot be made together
        return []


def propose(
    run: Run, generation: int, found: Diagnose, foretell: Foretell
) -> tuple[list[Design], list[Tried]]:
    """What may be tried next, in order of preference, and what cannot be; revised as often as a
    person asks for it."""
    place = generation_place(generation)
    note = approve(run, place, "diagnosis", {"parent": found.parent})
    note = "\n".join(filter(None, (run.note, note)))
    run.note = ""
    lineage, gauge = run.lineage, run.gauge
    spent = spent_so_far(run.ledger)
    view = view_of(lineage, gauge.domain, gauge.mix, generation, found, note, spent)
    view = view._replace(backtest=foretell)
    seed = derive(run.plan.seed, "engineer", generation - 1)
    for attempt in range(MOST_REVISIONS + 1):
        drawn = derive(seed, attempt) if attempt else seed
        name = f"propose-{attempt}" if attempt else "propose"
        fresh = not run.is_recorded(place, name)
        recorded = run.phase(place, name, partial(asked, run, found.parent, view, drawn))
        for words in (*unusable(recorded.proposals), *idle(recorded.proposals)):
            run.say(f"generation {generation}: {words}")
        designs, refused = screen(run, found.parent, view, recorded.proposals)
        for one in refused[:MOST_TOLD] if fresh else ():
            run.say(f"generation {generation}: {one.author}, {one.patch.factor}: {one.refused}")
        if fresh and len(refused) > MOST_TOLD:
            run.say(f"generation {generation}: {len(refused) - MOST_TOLD} more cannot be tried")
        said = described([(one.author, one.patch) for one in designs], view.incumbent)
        question = {
            "proposals": said, "refused": [one.refused for one in refused], "attempt": attempt,
        }  # fmt: skip
        always = bool(run.plan.asks_after) and run.lineage.failures >= run.plan.asks_after
        note = approve(run, place, "design", question, always)
        if not note:
            # From the parent, every generation trains a version, whoever has nothing to say.
            vain = fresh and not designs and run.plan.start_from == "base"
            run.vain = run.vain + 1 if vain else 0
            if not designs:
                check_going(run)
            return designs, refused
        returned = "\n".join(f"{name}: {words}" for name, words in said.items())
        notes = f"{note}\n{view.note}".strip()  # the newest first: a long text loses its end
        view = view._replace(note=notes, returned=returned or "nothing that can be used")
    run.say(f"generation {generation}: sent back {MOST_REVISIONS + 1} times: nothing changes")
    return [], []


def idle(proposals: Mapping[str, Sequence[Proposal]]) -> list[str]:
    """Which engineers have nothing to try, and why, where they say it in words."""
    found = []
    for name, said in proposals.items():
        words = [one.words for one in said if one.words and not is_table(one.words)]
        other = any(one.patch or one.failure or one.stop or one.measure is not None for one in said)
        if words and not other:
            found.append(f"{name} has nothing to try: {'; '.join(words)}"[:MOST_WORDS])
    return found


def check_going(run: Run) -> None:
    """Where there is no design: end the run if nobody is going to have one."""
    said = run.lineage.wishes
    # A model may say something else the next time; a rule says the same.
    may_pass = any(
        one.again or one.measure is not None or (one.patch and one.tokens) for _, one in said
    )
    if reasons := [f"{name}: {one.stop}" for name, one in said if one.stop and not may_pass]:
        raise Stopped("; ".join(reasons))
    # From the parent, training goes on; the same harness from the same policy comes to the same.
    if run.plan.start_from == "base" and not may_pass:
        raise Stopped("no engineer has a patch left to try")


def asked(run: Run, parent: int | None, view: View, seed: int) -> Propose:
    """What every engineer proposes, as it is recorded."""
    began = time.monotonic()
    checkpoint = run.paths.find(run.lineage.policy(parent))
    found: dict[str, list[Proposal]] = {}
    with Diagnosis(run.ledger.folder) as diagnosis:
        for name, make in run.team(checkpoint).items():
            # One of its own for each: what does not answer in time may still be asking.
            with Locked(diagnosis.evidence, diagnosis.locked.bounds) as locked:
                own = view._replace(ask=locked.ask, read=partial(readings_alone, locked=locked))
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
    view: View,
    proposals: Mapping[str, Sequence[Proposal]],
) -> tuple[list[Design], list[Tried]]:
    """Proposals that can be tried, and why the others cannot."""
    designs: list[Design] = []
    refused: list[Tried] = []
    tried, tickets = known_harnesses(run), set[str]()
    for author, listed in proposals.items():
        for one in listed:
            if one.failure or one.patch is None:
                continue
            try:
                found = designed(run, parent, view, one, author)
                ticket = author if found.patch.factor == "knobs" else ""
                if ticket in tickets:
                    raise UserError("an engineer has one design of knobs tried in a generation")
                digest = found.harness.digest()
                if digest in tried:
                    raise UserError(f"{found.patch.factor} was tried so: {tried[digest]}")
                tried[digest] = f"by {author} before"
                tickets |= {ticket} - {""}
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


def why_unchanged(asked: Mapping[str, Any], space: KnobSpace) -> str:
    """Why an answer leaves all knobs as they are."""
    if wrong := unknown(space, list(asked)):
        return wrong
    for name, value in asked.items():
        if name in space.knobs and not is_number(value):
            return f"{name} = {value!r:.40}: give a finite number"
    return "these knobs change nothing"


def designed(run: Run, parent: int | None, view: View, proposal: Proposal, author: str) -> Design:
    """A proposal as a patch of the parent; a `UserError` says why it is none."""
    assert proposal.patch
    patch, asked = proposal.patch.model_copy(update={"author": author}), proposal.patch.value
    allowed = run.plan.factors
    if patch.factor in FACTORS and patch.factor not in allowed:
        known = f"allows {', '.join(allowed)}: name more in `factors`"
        raise UserError(f"{patch.factor} is a factor, but this plan only {known}")
    lookup("factor", patch.factor, dict.fromkeys(allowed))
    other = None if proposal.parent in (None, parent) else proposal.parent
    before = view if other is None else view.of(other)
    if patch.factor == "knobs":
        if not isinstance(patch.value, Mapping):
            raise UserError(f"knobs = {patch.value!r:.80}: give an object of numbers")
        knobs = apply(patch.value, before.incumbent, view.reach)
        if not knobs.difference(before.incumbent):
            raise UserError(why_unchanged(patch.value, before.incumbent.space))
        patch = patch.model_copy(update={"value": dict(knobs)})
    harness = patched(run.lineage.harness(parent if other is None else other), patch)
    check_names(harness.reward, run.gauge.domain)
    harness.recipe.check(run.plan.all_processes)
    # As it was read, so that no spelling of a value hides what it is.
    patch = patch.model_copy(update={"value": flat(harness)[patch.factor]})
    cut = {} if asked == patch.value else asked
    return Design(patch, harness, author, proposal.skill, cut or None, other)
