"""From a diagnosis to designs: engineers look at the lineage and propose, the program screens.

Invariant: a design is one patch of the parent's harness that can be trained; where every version
begins with the same policy, one that was never tried. An engineer's failure is data.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from coevolve.backtests.reward import check_names
from coevolve.core.errors import UserError
from coevolve.core.exit import beside
from coevolve.core.names import lookup
from coevolve.core.seeds import derive
from coevolve.diagnostics.health import Diagnosis
from coevolve.diagnostics.locked import Locked
from coevolve.domains.knobs import Knobs
from coevolve.engineers.agent import AgentEngineer
from coevolve.engineers.base import Engineer, Past, Refused, View, proposal_of
from coevolve.engineers.reach import apply
from coevolve.engineers.situation import ancestry
from coevolve.harness.budget import Spent
from coevolve.harness.harness import Harness
from coevolve.harness.patch import FACTORS, Patch, flat, patched
from coevolve.harness.proposal import Proposal
from coevolve.harness.rules import MOST_REVISIONS
from coevolve.loop.run import Run
from coevolve.loop.supervise import Stopped, approve
from coevolve.policies.base import used
from coevolve.store.lineage import Node
from coevolve.store.paths import generation_place
from coevolve.store.phases import Diagnose, Propose, Tried

Said = TypeVar("Said")
Make = Callable[[], Engineer]
Foretell = Callable[[Patch], dict[str, Any]]
"""What a patch would do to stored rollouts, for engineers that ask."""

MOST_PROPOSALS = 16
"""Of one engineer in one generation."""
MOST_KNOBS, MOST_CHARACTERS, MOST_WORDS = 2_000, 1_000, 300
"""What is recorded of an engineer, and what is said of its failures."""


class Design(NamedTuple):
    """A patch that can be tried."""

    patch: Patch
    harness: Harness
    author: str
    skill: str = ""
    asked: Any = None
    """The value that was proposed, where reach or projection made another of it."""


def diagnose(run: Run, generation: int, parent: Node | None) -> Diagnose:
    """Every diagnostic over all versions so far."""
    number = parent.number if parent else None

    def work() -> Diagnose:
        health = run.health()
        alarms = [alarm.words for alarm in health.alarms if alarm.version == number]
        return Diagnose(
            parent=number,
            failures=run.lineage.failures,
            alarms=tuple(alarms),
            findings=tuple(health.findings),
        )

    found = run.phase(generation_place(generation), "diagnose", work)
    for words in found.alarms if not run.plan.only_knobs else ():
        run.say(f"version {number}: {words}")
    return found


def propose(
    run: Run, generation: int, parent: Node | None, found: Diagnose, foretell: Foretell
) -> tuple[list[Design], list[Tried]]:
    """What may be tried next, in order of preference, and what cannot be; revised as often as a
    person asks for it."""
    place = generation_place(generation)
    note = approve(run, place, "diagnosis", {"parent": found.parent})
    note = "\n".join(filter(None, (run.note, note)))
    run.note = ""
    view = view_of(run, generation, parent, found, note)._replace(backtest=foretell)
    seed = derive(run.plan.seed, "engineer", generation - 1)
    for attempt in range(MOST_REVISIONS + 1):
        drawn = derive(seed, attempt) if attempt else seed
        name = f"propose-{attempt}" if attempt else "propose"
        recorded = run.phase(place, name, partial(asked, run, parent, view, drawn))
        for words in unusable(recorded.proposals):
            run.say(f"generation {generation}: {words}")
        designs, refused = screen(run, parent, view.incumbent, recorded.proposals)
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


def view_of(run: Run, generation: int, parent: Node | None, found: Diagnose, note: str) -> View:
    """What engineers may see of the lineage."""
    lineage, domain, plan = run.lineage, run.gauge.domain, run.plan
    measured = {node.number: past_of(node) for node in lineage.nodes}
    on_the_way = line(run, parent)
    harness = run.harness(parent)
    return View(
        domain.space,
        domain.space.project(harness.knobs),
        tuple(measured[number] for number in on_the_way),
        {
            "round": generation - 1, "rounds": plan.versions, "steps": plan.recipe.steps,
            "recipe": harness.recipe.model_dump(), "reward": dict(domain.components),
        },
        note,
        reach=plan.reach,
        domain=domain.name,
        components=domain.components,
        parent=parent.version if parent else lineage.versions[0],
        versions=tuple(lineage.versions),
        refused=refused_before(run),
        measured=measured,
        findings=found.findings,
        factors=plan.factors,
        failures=lineage.failures,
        switch=failed_layers(run),
    )  # fmt: skip


def line(run: Run, parent: Node | None) -> list[int]:
    """The versions from the first to the parent, and those that failed as patches of knobs, or with
    nothing changed, beside them: an engineer of knobs learns nothing from the others."""
    versions = run.lineage.versions
    way = set(ancestry(versions, parent.number)) if parent else set()
    return [
        one.number
        for one in versions
        if one.number in way
        or (not one.valid and (one.patch is None or one.patch.factor == "knobs")
            and (one.parent is None or one.parent in way))
    ] or [0]  # fmt: skip


def past_of(node: Node) -> Past:
    """A version as engineers see it."""
    version, train, dev = node.version, node.train, node.dev
    assert train
    assert dev
    return Past(
        number=version.number,
        knobs=dict(version.harness.knobs),
        dev=dev.cells,
        train=train.cells,
        cases=dev.cases,
        engineer=version.author,
        explanation=version.patch.hypothesis if version.patch else "",
        verdict="kept" if version.valid else "reverted",
    )


def refused_before(run: Run) -> tuple[Refused, ...]:
    """Patches that a backtest has refused, with what they would have come to."""
    found = []
    for generation in run.lineage.generations:
        if not generation.tests or not generation.diagnose:
            continue
        number = generation.diagnose.parent
        parent = None if number is None else run.lineage.nodes[number]
        for one in generation.tests.tried:
            if one.refused and one.backtest and not one.backtest.passed:
                harness = patched(run.harness(parent), one.patch)
                found.append(Refused(patch=one.patch, words=one.refused, harness=harness))
    return tuple(found)


def failed_layers(run: Run) -> tuple[str, ...]:
    """After three failures in a row: the layers of what failed, to switch away from."""
    failures = run.lineage.failures
    if failures < 3:
        return ()
    tried = [one.patch.factor for one in run.lineage.versions if one.patch and not one.valid]
    tried += [one.patch.factor for one in refused_before(run)]
    return tuple(dict.fromkeys(FACTORS[factor][0] for factor in reversed(tried[-failures:])))


def asked(run: Run, parent: Node | None, view: View, seed: int) -> Propose:
    """What every engineer proposes, as it is recorded."""
    began = time.monotonic()
    checkpoint = run.paths.find(run.lineage.policy(parent.number if parent else None))
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


def proposed(make: Make, view: View, seed: int, patience_s: float) -> list[Proposal]:
    """The proposals of an engineer; its failure is data, also that it cannot be loaded."""
    began: list[tuple[Engineer, object, int, float]] = []

    def work() -> list[Proposal]:
        engineer = make()
        policy = getattr(engineer, "policy", None)
        began.append((engineer, policy, *used(policy)))
        return [proposal_of(one) for one in engineer.propose(view, seed)]

    found, failure = waited_for(work, patience_s)
    if not failure:
        return found[:MOST_PROPOSALS]
    failed = Proposal()
    for engineer, policy, tokens, money in began:  # what it took is counted all the same
        if isinstance(engineer, AgentEngineer):
            failed = engineer.give_up()
        else:
            now = used(policy)
            failed = Proposal(tokens=now[0] - tokens, money=now[1] - money)
    return [failed.model_copy(update={"failure": failure})]


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


def screen(
    run: Run,
    parent: Node | None,
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
    refused = {one.harness.digest(): "a backtest refused it" for one in refused_before(run)}
    trained = {one.harness.digest(): f"version {one.number}" for one in run.lineage.versions}
    return refused | trained


def designed(
    run: Run, parent: Node | None, incumbent: Knobs, proposal: Proposal, author: str
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
    harness = patched(run.harness(parent), patch)
    check_names(harness.reward, run.gauge.domain)
    harness.recipe.check(run.plan.processes)
    # As it was read, so that no spelling of a value hides what it is.
    patch = patch.model_copy(update={"value": flat(harness)[patch.factor]})
    cut = {} if asked == patch.value else asked
    return Design(patch, harness, author, proposal.skill, cut or None)


def unusable(proposals: Mapping[str, Sequence[Proposal]]) -> list[str]:
    """Which engineers said what cannot be used, and why."""
    found = []
    for name, said in proposals.items():
        if failures := [one.failure for one in said if one.failure]:
            count = f"{len(failures)} of {len(said)} proposals cannot be used"
            found.append(f"{name}: {count}: {'; '.join(dict.fromkeys(failures))}"[:MOST_WORDS])
    return found


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
