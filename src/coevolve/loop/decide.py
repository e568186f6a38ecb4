"""Deciding on versions: each by the plan's rule, against its control or its parent; what would be
kept has to hold in the clean room, too."""

import time
from collections.abc import Sequence

from coevolve.diagnostics.health import Health, readings_at
from coevolve.evaluation.clean import parted
from coevolve.evaluation.difference import Difference, stands
from coevolve.evaluation.gate import (
    NO_SPREAD,
    Rules,
    Ruling,
    Side,
    better,
    change_of,
    changes_of,
    higher,
    invalid,
    luck,
    no_worse_than_best,
    root,
)
from coevolve.evaluation.spread import spread_of
from coevolve.harness.budget import Spent
from coevolve.harness.version import Version
from coevolve.loop.measure import spent_on
from coevolve.loop.run import Run
from coevolve.loop.supervise import approve
from coevolve.loop.train import done
from coevolve.store.paths import version_place
from coevolve.store.phases import Beside, Best, Gate, Scores

Ranked = tuple[int, float, int]
"""Generation, rate on the gate, and number of a version."""


def decide(run: Run, versions: Sequence[Version]) -> None:
    """Give versions their verdicts; a person may end the run then, which keeps them."""
    for version in versions:
        place = version_place(version.number)
        verdict = run.phase(place, "gate", lambda one=version: decision(run, one))  # type: ignore[misc]
        run.say(f"version {version.number}: {verdict.words}")
        say_rates(run, version.number)
        facts = {"verdict": verdict.words, "policy": run.lineage.policy(version.number)}
        note = approve(run, place, "completion", facts)
        run.note = "\n".join(filter(None, (run.note, note)))


def say_rates(run: Run, number: int) -> None:
    """Both rates of a version beside the first policy's, and what fell."""
    node, base = run.lineage.nodes[number], run.lineage.base
    assert node.gate
    assert base
    rates = ", ".join(
        f"{metric} {stands(rate, metric)} (untrained {stands(base.mean(metric), metric)})"
        for metric, rate in node.gate.scores.rates.items()
    )
    run.say(f"version {number}: {rates}, n {node.gate.scores.n}")
    for fall in run.lineage.falls(node):
        run.say(f"version {number}: beware: {fall.words}")


def decision(run: Run, version: Version) -> Gate:
    """The verdict on a version, how it compares to no training, and what is best now."""
    metric = run.plan.objective.metric
    health = run.health([version.patch.metric] if version.patch else [])
    health.check()
    control = run.lineage.control_of(version)
    against = version.parent if control is None else control
    rules = rules_of(run, version, against)
    before = side(run, health, against)._replace(gate=run.reference(against))
    after = side(run, health, version.number)
    first = side(run, health, None)
    if version.number == 0 and run.plan.accept != "no worse":
        found = root(before, after, rules)
    elif run.plan.accept == "higher":
        found = higher(before, after, rules)
    elif run.plan.accept == "better":
        found = better(before, after, rules, version.patch)
    else:
        best = run.lineage.best_before(version.number)
        among = 1 + sum(one.valid for one in run.lineage.versions)
        strongest = None if best == against else side(run, health, best)
        found = no_worse_than_best(before, strongest, among, after, rules, version.patch)
    clean, extra = cleaned(run, version, found)
    if clean:
        gained = change_of(first.gate, after.gate, run.plan.seed, metric)
        if alarm := parted(version.number, gained, clean):
            after = after._replace(blocking=(*after.blocking, alarm))
            words = f"reverted: {invalid(after, found.change.told(metric))}"
            found = found._replace(verdict="reverted", words=words)
    words = found.words if control is None else f"{found.words} (against control {control})"
    scores = done(run, version.number).gate
    # A checkpoint is compared here, and not what its patch does: only evaluation has noise.
    apart = rules._replace(among=version.number + 1, spread=NO_SPREAD)
    beside = better(first, after, apart)
    if found.kept and control is not None:
        words = f"{words}; beside the untrained policy {beside.change.told(metric)}"
    return Gate(
        verdict=found.verdict,
        words=words,
        scores=scores,
        against=against,
        change=found.change,
        protected=found.protected,
        metrics=changes_of(before.gate, after.gate, run.plan.seed),
        since=since(run, version, after),
        broken=found.broken,
        blocking=tuple(after.blocking),
        clean=clean,
        moved=found.moved,
        spread=rules.spread.value,
        among=rules.among,
        base=Beside(
            better=beside.kept,
            words=beside.words.removeprefix(f"{beside.verdict}: "),
            change=beside.change,
            metrics=changes_of(first.gate, after.gate, run.plan.seed),
        ),
        best=best_after(run, version, found, scores, beside),
        spent=scores.spent + extra,
    )


def cleaned(run: Run, version: Version, found: Ruling) -> tuple[Difference | None, Spent]:
    """What a version that is about to be kept has gained in the clean room over the first policy,
    and what it took to know."""
    asked = run.lineage.clean and run.plan.gate.on and run.plan.accept != "higher"
    if not asked or not found.kept:
        return None, Spent()
    began = time.monotonic()
    after = run.clean(version.number)
    spent = spent_on(after, began)
    return change_of(run.clean(None), after, run.plan.seed, run.plan.objective.metric), spent


def since(run: Run, version: Version, after: Side) -> Difference | None:
    """What was gained since proposals began to change anything on the way to a version."""
    unaided = run.lineage.unaided(version.number)
    if unaided == version.number:
        return None
    return change_of(run.gate(unaided), after.gate, run.plan.seed, run.plan.objective.metric)


def rules_of(run: Run, version: Version, against: int | None) -> Rules:
    """What a version is judged by; `against` another one, as others were before it."""
    before = [one.gate for one in run.lineage.nodes[: version.number] if one.gate]
    among = 1 + sum(one.against == against for one in before) - (against == 0)
    noise = run.lineage.noise
    pairs = (*noise.twins, *noise.among) if noise else ()
    spread = spread_of(pairs, run.lineage.controls)
    return Rules(run.plan.gate, run.plan.objective, spread, max(1, among), run.plan.seed)


def best_after(run: Run, version: Version, found: Ruling, scores: Scores, beside: Ruling) -> Best:
    """What the run would end with, given a verdict that is not recorded yet."""
    lineage, metric = run.lineage, run.plan.objective.metric
    assert lineage.base
    untrained = (
        f"without any training {metric} {stands(lineage.base.mean(metric), metric)}, "
        f"n {lineage.base.n} attempts at gate tasks"
    )
    kept = found.verdict in ("kept", "root")
    if run.plan.accept == "no worse":
        among = [
            (one.version.generation, lineage.score(one), one.number) for one in lineage.strongest
        ]
        among += [(version.generation, scores.mean(metric), version.number)] if kept else []
        if not among:
            return Best(version=None, words=f"no version was kept; {untrained}")
        which = handed_out(run, among) if run.plan.gate.on else max(among)
        kept_words = "kept, with controls," if run.plan.control else "kept,"
        words = f"version {which[2]}, one of {len(among)} that were {kept_words}"
        return Best(version=which[2], words=f"{words} with {stands(which[1], metric)}; {untrained}")
    ranked = [
        (-lineage.score(one), one.number, one.gate.base.better, one.gate.base.change.told(metric))
        for one in lineage.strongest
        if one.gate
    ]
    if kept:
        ranked.append(
            (-scores.mean(metric), version.number, beside.kept, beside.change.told(metric))
        )
    ranked.sort()
    how = "beside" if run.plan.accept == "higher" else "is better than"
    for _, number, is_better, words in ranked:
        if is_better or run.plan.accept == "higher":
            found_words = f"version {number} {how} no training: {words}; {untrained}"
            return Best(version=number, words=found_words)
    words = f"no version is better than no training: {untrained}"
    if ranked:
        score, number, _, beside_words = ranked[0]
        words += f"; version {number}, the strongest with {stands(-score, metric)}: {beside_words}"
    return Best(version=None, words=words)


def handed_out(run: Run, among: Sequence[Ranked]) -> Ranked:
    """The newest of the versions that were kept, since training went on; an older one where it is
    ahead by more than luck."""
    newest, strongest = max(among), max(among, key=lambda one: one[1])
    ahead = change_of(
        run.gate(newest[2]), run.gate(strongest[2]), run.plan.seed, run.plan.objective.metric
    )
    return newest if ahead.mean <= luck(ahead, len(among)) else strongest


def side(run: Run, health: Health, number: int | None) -> Side:
    """What is known of a version: its gate rollouts, and what diagnostics say of it."""
    if number is None:
        return Side(run.gate(None))
    train = run.lineage.nodes[number].train
    assert train
    readings = readings_at(health.findings, number)
    # Where there is a clean room, that decides, and grown diagnostics are put on record.
    aside = {one.diagnostic.name for one in health.findings if one.diagnostic.grown}
    aside = aside if run.lineage.clean else set()
    blocking = [one for one in health.blocking(number) if one.diagnostic not in aside]
    blocking = blocking if run.plan.diagnostic.blocks else []
    return Side(run.gate(number), readings, blocking, train.result.stopped)
