"""Designs put to the test before they are trained: on what their parent has left behind.

The parent's harness is always a candidate: a design that does not pass is not trained. Designs are
taken in the order of the engineers' preference; of several for the knobs, those that gain most.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from coevolve.backtests.bets import Bench, Branch, alive
from coevolve.backtests.patch import backtest_patch
from coevolve.backtests.wording import backtest_wording
from coevolve.core.errors import KnobError, UserError
from coevolve.core.rollout import Rollout
from coevolve.core.seeds import derive
from coevolve.domains.knobs import Knobs
from coevolve.evaluation.wording import unsound
from coevolve.harness.backtest import Backtest
from coevolve.harness.budget import Spent
from coevolve.harness.harness import Harness
from coevolve.harness.patch import Patch, patched
from coevolve.harness.version import Version
from coevolve.loop.measure import spent_on
from coevolve.loop.propose import Design, Foretell
from coevolve.loop.run import Run
from coevolve.loop.supervise import approve
from coevolve.loop.train import branch, equal, grow, own_tasks, seed_of
from coevolve.store.cells import cells_of
from coevolve.store.paths import generation_place
from coevolve.store.phases import Tests, Tried

Test = Callable[[Design, int], Backtest]
"""Of a design, as one of so many candidates."""
NOT_NEEDED = "not needed: others came first"


def backtest(
    run: Run, generation: int, parent: int | None, designs: list[Design], refused: list[Tried]
) -> list[Version]:
    """The next versions of a parent: designs whose backtests passed, a control where the plan asks
    for one, and the harness as it is where nothing passed and training goes on."""
    place = generation_place(generation)
    found = run.phase(place, "backtest", partial(tested, run, generation, parent, designs, refused))
    run.say(f"generation {generation}: {found.words}")
    words = {f"{one.author}, {one.patch.factor}": one.words for one in found.tried}
    note = approve(run, place, "backtest", {"words": found.words, "backtests": words})
    taken = [] if note else [one for one in found.tried if not one.refused]
    run.note = "\n".join(filter(None, (run.note, note)))
    return list(versions_of(run, generation, parent, taken))


def versions_of(
    run: Run, generation: int, parent: int | None, taken: Sequence[Tried]
) -> Iterator[Version]:
    """The versions of a generation, as they are recorded."""
    before, plan = run.lineage.harness(parent), run.plan

    def version(**facts: Any) -> Version:
        given = {"number": len(run.lineage.nodes), "generation": generation, "parent": parent}
        return grow(run, Version(**{**given, **facts}))

    if (plan.control and taken) or (plan.start_from == "parent" and not taken):
        author = "start" if parent is None else run.lineage.versions[parent].author
        yield version(harness=before, author=author, control=bool(taken))
    for one in taken:
        own = parent if one.parent is None else one.parent
        harness = patched(run.lineage.harness(own), one.patch)
        yield version(
            patch=one.patch, harness=harness, author=one.author, skill=one.skill, parent=own
        )


def tested(
    run: Run,
    generation: int,
    parent: int | None,
    designs: Sequence[Design],
    refused: Sequence[Tried],
) -> Tests:
    """Which designs pass, which are taken, and why the others are not."""
    began, drawn = time.monotonic(), dict[str, Spent]()
    other = stand_in(run, generation, parent)
    own = tester(
        run, generation, other.harness if other else run.lineage.harness(parent), parent, drawn
    )

    def test(one: Design, among: int) -> Backtest:
        if one.parent is None:
            return own(one, among)
        before = run.lineage.harness(one.parent)
        return tester(run, generation, before, one.parent, drawn)(one, among)

    first = knobs_first(designs)
    found = {id(one): test(one, len(first)) for one in first}
    room = min(run.plan.width, run.plan.versions - run.lineage.counted)
    taken: list[Design] = []
    for one in by_gain(designs, found):
        if len(taken) == room:
            break
        if id(one) not in found:
            found[id(one)] = test(one, 1)
        if found[id(one)].passed:
            taken.append(one)
    if other and not taken:
        designs, taken = [*designs, other], [other]
    tried = [tried_of(one, found.get(id(one)), one in taken) for one in designs]
    return Tests(
        words=decision(tried, taken),
        tried=(*tried, *refused),
        spent=sum(drawn.values(), Spent(seconds=time.monotonic() - began)),
    )


def knobs_first(designs: Sequence[Design]) -> list[Design]:
    """Designs of knobs, if the first of all is one: they are compared with each other."""
    knobs = [one for one in designs if one.patch.factor == "knobs"]
    return knobs if knobs and designs[0] is knobs[0] else []


def by_gain(designs: Sequence[Design], found: dict[int, Backtest]) -> list[Design]:
    """The order in which designs are taken: as preferred, but knobs that gain more first."""

    def gain(one: Design) -> float:
        known = found[id(one)].measures.get("gain")
        return known.value if known else 0.0

    probed = sorted((one for one in designs if id(one) in found), key=gain, reverse=True)
    return [*probed, *(one for one in designs if id(one) not in found)]


def tried_of(one: Design, found: Backtest | None, taken: bool) -> Tried:
    why = ""
    if not taken:
        passed = found is None or found.passed
        why = NOT_NEEDED if passed else f"rejected by its backtest: {found.words if found else ''}"
    return Tried(
        author=one.author, patch=one.patch, asked=one.asked, skill=one.skill, refused=why,
        backtest=found, parent=one.parent,
    )  # fmt: skip


def decision(tried: Sequence[Tried], taken: Sequence[Design]) -> str:
    """The decision in words."""
    lines = [
        f"{one.author} ({one.patch.factor}): {one.backtest.words}" for one in tried if one.backtest
    ]
    if taken:
        why = f"to be trained: {', '.join(f'{one.author} ({one.patch.factor})' for one in taken)}"
    else:
        why = (
            "nothing passed: the harness stays as it is"
            if tried
            else "no engineer has anything to try"
        )
    return ". ".join([why, *(["; ".join(lines)] if lines else [])])


def tester(
    run: Run, generation: int, harness: Harness, parent: int | None, drawn: dict[str, Spent]
) -> Test:
    """How a design of a parent is tested; what is drawn for it is added to `drawn`, by name."""
    plan, rule, gauge = run.plan, run.plan.backtest, run.gauge
    policy = run.lineage.policy(parent)
    seed = derive(plan.seed, "engineer", generation - 1)

    def probe(knobs: Knobs) -> list[Rollout]:
        name = f"{generation:02d}-{knobs.name}"
        place = run.paths.probes(parent, name)
        found = gauge.probe(policy, knobs, rule, harness.recipe, generation - 1, place)
        drawn[name] = spent_on(found, time.monotonic())
        return found

    def answers(checkpoint: str, place: Path) -> list[Rollout]:
        return gauge.measure(checkpoint, gauge.dev, place / "dev")

    def grown(tried: Harness) -> Branch:
        place, train = branch(run, generation, parent, tried)
        drawn[place.name] = train.spent.model_copy(update={"seconds": 0.0})
        trained = train.result.policy
        return Branch(gauge.lazy(trained), alive(train.cells), partial(answers, trained, place))

    own = run.paths.version(parent) if parent is not None else run.paths.probes(None, "")
    bench = Bench(
        rule.by, plan.objective.metric, plan.target.temperature, gauge.domain.space,
        gauge.lazy(policy), partial(answers, policy, own), probe, grown,
    )  # fmt: skip

    def in_words(one: Design) -> Backtest:
        """The parent, asked in the words of a design."""
        knobs, number = gauge.domain.space.parse(harness.knobs), generation - 1
        name = f"{generation:02d}-{one.harness.digest()[:16]}"
        after = gauge.probe(
            policy, knobs, rule, harness.recipe, number, run.paths.probes(parent, name),
            one.harness.wording,
        )  # fmt: skip
        drawn[name] = spent_on(after, time.monotonic())
        tasks = gauge.probe_tasks(knobs, rule, number)
        failures = unsound(gauge.domain, tasks, gauge.style, one.harness.wording)
        living = alive(cells_of(after))
        return backtest_wording(
            one.patch, probe(knobs), after, failures, (living.successes, living.n), rule
        )

    def test(one: Design, among: int) -> Backtest:
        try:
            if one.patch.factor.startswith("wording.") and rule.on:
                return in_words(one)
            if one.patch.factor not in ("reward", "filters"):
                own_tasks(
                    gauge.domain, one.harness.knobs, equal(plan, one.harness.recipe),
                    seed_of(plan, generation), plan.lessons,
                )  # fmt: skip
            return backtest_patch(
                one.patch, harness, parent, run.ledger.folder, gauge.domain, bench, rule, seed,
                among,
            )  # fmt: skip
        except KnobError as error:
            words = f"its tasks cannot be made: {error}"
            return Backtest(passed=False, words=words, prediction="unclear")

    return test


def foretold(run: Run, generation: int, parent: int | None) -> Foretell:
    """The same for an engineer that asks: what costs no rollouts."""

    def answer(patch: Patch, version: int) -> dict[str, Any]:
        if patch.factor == "knobs" or patch.factor.startswith("wording."):
            return {"words": f"{patch.factor}: probed with new tasks, once it is proposed"}
        before = run.lineage.harness(version)
        design = Design(patch, patched(before, patch), patch.author)
        own = parent if version == (parent or 0) else version
        found = tester(run, generation, before, own, {})(design, 1)
        return found.model_dump(mode="json", exclude_none=True)

    return answer


def stand_in(run: Run, generation: int, parent: int | None) -> Design | None:
    """Where the parent's tasks cannot be made any more: the latest knobs of which they can, in its
    place. An error if there are none."""
    if run.plan.start_from == "base" or not (problem := unmade(run, generation, parent, None)):
        return None
    for past in reversed(run.lineage.versions):
        knobs = past.harness.knobs
        if not unmade(run, generation, parent, knobs):
            words = f"The knobs of version {past.number} stand in, since {problem}"
            patch = Patch(factor="knobs", value=knobs, hypothesis=words, author=past.author)
            return Design(patch, patched(run.lineage.harness(parent), patch), past.author)
    raise KnobError(problem)


def unmade(run: Run, generation: int, parent: int | None, knobs: dict[str, float] | None) -> str:
    """Why tasks to probe, and those of the next version, cannot be made; empty if they can."""
    harness, plan, domain = run.lineage.harness(parent), run.plan, run.gauge.domain
    chosen = harness.knobs if knobs is None else knobs
    try:
        if plan.backtest.on:
            run.gauge.probe_tasks(domain.space.parse(chosen), plan.backtest, generation - 1)
        recipe = equal(plan, harness.recipe)
        own_tasks(domain, chosen, recipe, seed_of(plan, generation), plan.lessons)
    except KnobError as error:
        return str(error)
    return ""


def merge(run: Run, generation: int) -> list[Version]:
    """Two siblings that were both better beyond noise, by different factors, united: a version of
    its own."""
    lineage = run.lineage
    done = {version.merged for version in lineage.versions}
    better_ones = [
        one.version for one in lineage.nodes
        if one.version.verdict == "kept" and one.gate and one.gate.change.low > 0
    ]  # fmt: skip
    kept = [(one, one.patch) for one in better_ones if one.patch]
    for (one, first), (other, second) in combinations(kept, 2):
        pair = (one.number, other.number)
        if one.parent != other.parent or first.factor == second.factor or pair in done:
            continue
        better = lineage.score(lineage.nodes[one.number]) >= lineage.score(
            lineage.nodes[other.number]
        )
        base, patch = (one, second) if better else (other, first)
        harness = patched(base.harness, patch)
        try:
            harness.recipe.check(run.plan.all_processes)
        except UserError:  # each goes with their parent's values, and not with the other's
            continue
        version = Version(
            number=len(lineage.nodes), generation=generation, parent=base.number, merged=pair,
            harness=harness, author="merge",
        )  # fmt: skip
        run.say(f"version {version.number}: merges versions {pair[0]} and {pair[1]}")
        return [grow(run, version)]
    return []
