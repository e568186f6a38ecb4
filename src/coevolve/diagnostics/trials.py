"""Trials of proposed diagnostics: replayed over history, and accepted only if they tell good
versions from bad ones, say something new, and say it of either half of the tasks.

Verdicts decide, and no engineer sees the rollouts behind them. Invariant: a new diagnostic speaks
of later versions only, and none can take the place of one that blocks promotion.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from coevolve.core.rollout import Value
from coevolve.core.seeds import derive
from coevolve.diagnostics.connection import Bounds
from coevolve.diagnostics.health import Diagnosis
from coevolve.diagnostics.separation import (
    Readings,
    Separation,
    alike,
    best_cut,
    cut_p_value,
    gap,
    separations,
    with_threshold,
)
from coevolve.diagnostics.suite import Suite, load_suite
from coevolve.harness.diagnostic import Diagnostic, DiagnosticTrial, Validation
from coevolve.harness.rules import DiagnosticRule

STATISTIC = "AUC, bad versions over good ones"
CUT = "share of bad versions beyond the threshold, less that of good ones"


class Occasion(Value):
    """What diagnostics are tried on."""

    folder: Path
    """Of the run."""
    labels: dict[int, bool]
    """See `separation.labels_of`."""
    since: int
    """The version that comes next."""
    rule: DiagnosticRule = DiagnosticRule()
    bounds: Bounds | None = None
    seed: int = 0
    earlier: int = 0
    """Occasions before it; p-values are multiplied by one more, as trying again costs."""


class Replayed(NamedTuple):
    """What a diagnostic says of all versions, or why it says nothing."""

    readings: dict[int, float]
    error: str = ""


def replay(diagnosis: Diagnosis, diagnostic: Diagnostic) -> Replayed:
    """What it would have said of every version there is. Only SQL that came with the program runs
    outside the locked connection."""
    whole = diagnostic.model_copy(update={"since": 0})
    found = diagnosis.finding(whole)
    return Replayed(
        {one.version: one.value for one in found.readings if one.n >= whole.least}, found.error
    )


Halves = tuple[dict[str, dict[int, float]], dict[str, dict[int, float]]]
"""Readings by name of a diagnostic, of one half of the tasks and of the other."""


def halves(diagnostics: Sequence[Diagnostic], occasion: Occasion) -> list[Halves]:
    """What halves of the tasks say; a hash of their ids halves them, anew for each split."""
    folder, bounds = occasion.folder, occasion.bounds
    # Half of the tasks need only half of the n.
    lenient = [one.model_copy(update={"least": max(1, one.least // 2)}) for one in diagnostics]

    def ask(condition: str) -> dict[str, dict[int, float]]:
        with Diagnosis(folder, Suite({}), bounds, condition, blind=True) as diagnosis:
            return {one.name: replay(diagnosis, one).readings for one in lenient}

    found = []
    for split in range(occasion.rule.splits if diagnostics else 0):
        salt = f"{derive(occasion.seed, 'half', split):016x}"
        test = f"hash('{salt}' || task_id) % 2 = "
        found.append((ask(f"{test}0"), ask(f"{test}1")))
    return found


def agreements(
    diagnostics: Sequence[Diagnostic],
    occasion: Occasion,
    agree: Callable[[Readings, Readings], float],
) -> dict[str, float]:
    """How well two halves of the tasks agree on each diagnostic: the mean over all splits."""
    cut = halves(diagnostics, occasion)
    return {
        one.name: sum(agree(first[one.name], second[one.name]) for first, second in cut) / len(cut)
        for one in diagnostics
    }


def stabilities(diagnostics: Sequence[Diagnostic], occasion: Occasion) -> dict[str, float]:
    """For each diagnostic the rank correlation, over versions, of what two halves say."""
    return agreements(diagnostics, occasion, lambda one, other: alike(one, other)[0])


def try_diagnostics(proposed: Sequence[Diagnostic], occasion: Occasion) -> list[DiagnosticTrial]:
    """One trial for each, in order. All of them share the chance of a false acceptance."""
    if not proposed:
        return []
    suite = load_suite(occasion.folder)
    with Diagnosis(occasion.folder, suite, occasion.bounds, blind=True) as diagnosis:
        readings = [replay(diagnosis, one) for one in proposed]
        domains = diagnosis.domains()
        existing = {one.name: (one, replay(diagnosis, one).readings) for one in suite.of(domains)}
    tried = [(one.readings, new.direction) for one, new in zip(readings, proposed, strict=True)]
    found = [
        one._replace(p_value=min(1.0, (1 + occasion.earlier) * one.p_value))
        for one in separations(tried, occasion.labels, occasion.seed)
    ]
    trials = {
        place: trial_of(one, readings[place], found[place], suite, occasion, len(proposed))
        for place, one in enumerate(proposed)
    }
    known: dict[str, Readings] = {name: values for name, (_, values) in existing.items()}
    asked = [(values, one.direction) for one, values in existing.values()]
    areas = (one.auc for one in separations(asked, occasion.labels, occasion.seed))
    standing = dict(zip(existing, areas, strict=True))
    sound = [trial.diagnostic for trial in trials.values() if not trial.reason]
    stable = stabilities(sound, occasion)
    best = sorted(trials, key=lambda place: (-(trials[place].value or 0.0), place))
    for place in best:
        trial = trials[place]
        if trial.reason:
            continue
        name = trial.diagnostic.name
        others = {other: values for other, values in known.items() if other != name}
        trials[place] = trial = judged(trial, others, standing, stable[name], occasion)
        if trial.accepted:
            known[name], standing[name] = trial.readings, found[place].auc
    return [trials[place] for place in range(len(proposed))]


def trial_of(
    diagnostic: Diagnostic,
    replayed: Replayed,
    found: Separation,
    suite: Suite,
    occasion: Occasion,
    family: int,
) -> DiagnosticTrial:
    """What can be said without looking at other diagnostics; a reason means that it is refused."""
    critical = diagnostic.critical if diagnostic.blocks else None
    blocked = [
        version
        for version, value in replayed.readings.items()
        if occasion.labels.get(version)
        and critical is not None
        and diagnostic.beyond(value, critical)
    ]
    old, level = suite.diagnostics.get(diagnostic.name), occasion.rule.level
    numbers = f"AUC {found.auc:.2f}, {found.bad} bad and {found.good} good versions"
    if old is not None and old.blocks:
        reason = f"'{old.name}' blocks promotion and stays as it is"
    elif replayed.error:
        reason = f"it cannot be asked: {replayed.error}"
    elif found.p_value > level:
        reason = f"it does not tell good versions from bad ones: {numbers}, p {found.p_value:.3g}"
    elif blocked:
        reason = f"it would have blocked good versions: {', '.join(map(str, blocked))}"
    else:
        reason = ""
    return DiagnosticTrial(
        diagnostic=diagnostic,
        reason=reason,
        readings=replayed.readings,
        labels=occasion.labels,
        value=found.auc,
        p_value=found.p_value,
        family=family,
    )


def judged(
    trial: DiagnosticTrial,
    others: Mapping[str, Readings],
    standing: Mapping[str, float],
    stability: float,
    occasion: Occasion,
) -> DiagnosticTrial:
    """The same beside all other diagnostics, and accepted if it says something new and firm."""
    rule, assumed = occasion.rule, trial.value or 0.0
    trial = trial.model_copy(update={"stability": stability})
    for name, values in others.items():
        correlation, versions = alike(trial.readings, values)
        same = abs(correlation) >= rule.most_alike and versions >= rule.least_versions
        if same and abs(standing[name] - 0.5) >= abs(assumed - 0.5) - 0.05:
            reason = (
                f"'{name}' says the same: rank correlation {correlation:+.2f} over {versions} "
                "versions"
            )
            return trial.model_copy(update={"reason": reason})
    if stability < rule.least_stable:
        reason = (
            f"two halves of the tasks do not agree on it: rank correlation {stability:.2f} over "
            f"versions, mean of {rule.splits} splits"
        )
        return trial.model_copy(update={"reason": reason})
    return accepted(trial, STATISTIC, {"since": occasion.since})


def accepted(trial: DiagnosticTrial, statistic: str, from_now: dict[str, int]) -> DiagnosticTrial:
    """The diagnostic with what it takes to be used."""
    assert trial.value is not None
    words = (
        f"of {len(trial.labels)} versions {sum(trial.labels.values())} good; halves of the tasks "
        f"agree with rank correlation {trial.stability:.2f}; tried together with {trial.family - 1}"
    )
    validation = Validation(
        statistic=statistic,
        value=trial.value,
        p_value=trial.p_value,
        versions=len(trial.readings),
        words=words,
    )
    diagnostic = with_threshold(trial.diagnostic, trial.readings, trial.labels).model_copy(
        update={"validation": validation, **from_now}
    )
    reason = f"accepted: {statistic} {trial.value:.2f}, p {trial.p_value:.3g}; {words}"
    return trial.model_copy(update={"diagnostic": diagnostic, "accepted": True, "reason": reason})


def try_threshold(name: str, occasion: Occasion, family: int = 1) -> DiagnosticTrial | None:
    """A new threshold for a diagnostic that exists: accepted if it tells versions apart, and more
    of them than the old one. Only later versions are held to it, but it goes on speaking of all, as
    triggers compare with those before. None where there is nothing to choose from. `family`: how
    many thresholds are tried together."""
    suite = load_suite(occasion.folder)
    old = suite.diagnostics[name]
    with Diagnosis(occasion.folder, suite, occasion.bounds, blind=True) as diagnosis:
        readings = replay(diagnosis, old).readings
    known = {version: value for version, value in readings.items() if version in occasion.labels}
    cut = best_cut(known, occasion.labels, old.direction)
    if cut is None:
        return None
    p_value = cut_p_value(known, occasion.labels, old.direction, occasion.seed)
    p_value = min(1.0, p_value * family * (1 + occasion.earlier))
    stays = old.critical is not None and old.beyond(old.critical, cut.threshold)
    revised = old.model_copy(
        update={"warn": cut.threshold, "critical": old.critical if stays else None}
    )
    trial = DiagnosticTrial(
        diagnostic=revised,
        readings=readings,
        labels=occasion.labels,
        value=cut.gap,
        p_value=p_value,
        family=family,
    )
    before = max(
        (gap(known, occasion.labels, old.direction, line)
         for line in (old.warn, old.critical) if line is not None),
        default=0.0,
    )  # fmt: skip
    if old.blocks:
        reason = f"'{name}' blocks promotion and stays as it is"
    elif p_value > occasion.rule.level:
        reason = f"no threshold tells good versions from bad ones: p {p_value:.3g}"
    elif cut.gap <= before:
        reason = f"the threshold there is tells as much ({before:.2f})"
    else:
        stable = stabilities([old], occasion)[name]
        trial = trial.model_copy(update={"stability": stable})
        if stable >= occasion.rule.least_stable:
            return accepted(trial, CUT, {"revised": occasion.since})
        reason = f"two halves of the tasks do not agree on it: {stable:.2f}"
    return trial.model_copy(update={"reason": reason})
