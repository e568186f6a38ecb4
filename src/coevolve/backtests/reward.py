"""The backtest of a reward: stored rollouts are rewarded anew, as training would have done it.

Whether rewards put better results above worse ones, and what they pay for among equal results, is
seen in pairs within groups, since only there are rewards compared.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coevolve.backtests.numbers import (
    CORRECT,
    LENGTH,
    QUANTITIES,
    SIGNAL,
    beyond_noise,
    count,
    follows,
    judged,
    mean,
    moved,
    percent,
    share,
)
from coevolve.backtests.replay import Stored
from coevolve.backtests.signal import Signal, centred, change_of, over_groups, push, ranges
from coevolve.core.errors import UserError
from coevolve.domains.base import Domain
from coevolve.evaluation.shape import Shaped
from coevolve.harness.backtest import Backtest, Measure, Prediction
from coevolve.harness.code import is_code
from coevolve.harness.expression import Numbers, expression
from coevolve.harness.filters import Flags
from coevolve.harness.patch import Patch
from coevolve.harness.reward import FACTS, check_reward
from coevolve.harness.rules import BacktestRule
from coevolve.store.cells import SAME

RESULTS = ("solved", "tests", "accuracy", "passed")
"""Reward components that say how good a result is, where a domain has them."""
UNCHANGED = 0.01
"""Advantages that move by less, in spreads of a group, have not moved."""
EVERYBODY = 0.98
"""A bonus that at least this share of rollouts earns is a bonus for everybody."""
INFLATES = 0.5
"""Correlation with length among equal results from which a reward pays for length."""
SLIGHTLY, CLEARLY = 0.01, 0.05
"""Share of groups that must come to life, or die, for a prediction about diagnostics of the signal,
and about the score."""

Rows = NDArray[np.int64]
Ways = tuple[Signal, Signal]
"""The two ways of rewarding the same rollouts: before, and after."""


def backtest_reward(
    patch: Patch, stored: Stored, ways: Ways, domain: Domain, rule: BacktestRule
) -> Backtest:
    """Measure, judge, predict."""
    measures = measured(patch, stored, ways, domain)
    wrong = problems(patch, measures, rule)
    if is_code(patch.value):
        wrong = [*unsound(stored, patch.value, ways[1].rewards), *wrong]
    said = (
        f"dead groups {percent(measures['dead_before'])} before, "
        f"{measures['dead_after'].value:.1%} after; {measures['revived'].value:.0f} revived, "
        f"{measures['killed'].value:.0f} killed; wrong order in "
        f"{percent(measures['violations_after'])} pairs, before "
        f"{measures['violations_before'].value:.1%}"
    )
    return judged(wrong, said, predicted(patch, measures, bool(wrong)), measures)


def unsound(stored: Stored, source: str, rewards: Numbers) -> list[str]:
    """Why a function is none that training can go by: it fails, or is not the same twice."""
    return differs(stored, stored.coded(source, backwards=True), rewards)


def differs(stored: Stored, again: Shaped, values: Numbers) -> list[str]:
    """The same of what a function said the second time."""
    if again.failures:
        return [f"it fails on {len(again.failures)} of {stored.n} rollouts: {again.failures[0]}"]
    if not np.array_equal(again.values, values):
        return ["asked again, in another order, it gives other numbers"]
    return []


def check_names(text: str, domain: Domain) -> None:
    """Refuse an expression that training would refuse."""
    check_reward(text, {**FACTS, **domain.components})
    if not is_code(text) and not expression(text).names:
        raise UserError(
            f"the reward '{text[:100]}' is the same for every rollout; name a component"
        )


def measured(patch: Patch, stored: Stored, ways: Ways, domain: Domain) -> dict[str, Measure]:
    before, after = ways
    groups, facts = stored.groups, stored.facts
    revived, killed = after.live & ~before.live, before.live & ~after.live
    added = after.rewards - before.rewards
    pairs = list(pairs_of(stored, domain.components))
    found = {
        "dead_before": share((~before.live).sum(), groups),
        "dead_after": share((~after.live).sum(), groups),
        "revived": count(revived.sum(), groups),
        "revived_share": share(revived.sum(), int((~before.live).sum())),
        "revived_by_length": share(by_length(stored, after, revived).sum(), int(revived.sum())),
        "killed": count(killed.sum(), groups),
        "live_change": mean(after.live.astype(np.float64) - before.live),
        "blurred": share((killed & told_apart(stored, pairs, before.rewards)).sum(), groups),
        "violations_before": violations(pairs, before.rewards),
        "violations_after": violations(pairs, after.rewards),
        "valid_correlation_before": correlation(before.rewards, facts["valid"]),
        "valid_correlation_after": correlation(after.rewards, facts["valid"]),
        "advantage_change": change_of(before, after),
        "paid_alike": share(commonest(added), stored.n),
        "normalised_away": count(normalised_away(stored, added), stored.n),
    }
    for name in ("tokens", "turns"):
        for when, way in (("before", before), ("after", after)):
            found[f"{name}_pay_{when}"] = paid_among_equals(pairs, way.rewards, facts[name])
    for name in [] if is_code(patch.value) else sorted(expression(patch.value).names):
        found[f"flat.{name}"] = share((ranges(stored, facts[name]) < SAME).sum(), groups)
    if fact := QUANTITIES.get(patch.metric):
        found["push"] = push(stored, before, after, facts[fact])
    return found


def problems(patch: Patch, found: dict[str, Measure], rule: BacktestRule) -> list[str]:
    """Why a reward should not be trained."""
    wrong = []
    rise = found["violations_after"].value - found["violations_before"].value
    # Groups that die although their results differ, less those that come to life.
    lost = found["blurred"].value - found["revived"].value / max(found["blurred"].n, 1)
    if rise > rule.most_wrong:
        wrong.append(f"worse results are newly ranked above better ones in {rise:.1%} of the pairs")
    if found["advantage_change"].value < UNCHANGED:
        wrong.append("within groups nothing changes: the same advantages as before")
    elif lost >= CLEARLY:
        wrong.append(
            f"in {percent(found['blurred'])} groups better and worse results newly earn the same"
        )
    elif found["paid_alike"].value >= EVERYBODY:
        wrong.append(
            f"{found['paid_alike'].value:.1%} of the rollouts earn the same from the change, which "
            "comparing within groups takes away again"
        )
    if patch.metric in SIGNAL and found["dead_after"].value >= found["dead_before"].value:
        wrong.append("it is meant to give more signal, and no more groups are alive")
    if patch.metric not in LENGTH:
        for name in ("tokens", "turns"):
            now, then = found[f"{name}_pay_after"].value, found[f"{name}_pay_before"].value
            if now >= INFLATES and now - then >= INFLATES / 2:
                wrong.append(f"among equal results it pays for more {name} (correlation {now:.2f})")
        by = found["revived_by_length"]
        if by.value > 0.5 and by.n >= CLEARLY * found["dead_before"].n:
            wrong.append(f"of {by.n} revived groups {by.value:.0%} differ in nothing but length")
    return wrong


def predicted(patch: Patch, found: dict[str, Measure], refused: bool) -> Prediction:
    """Where the metric goes."""
    gained = beyond_noise(found["live_change"])
    if patch.metric in SIGNAL:
        return follows(patch.metric, gained, SLIGHTLY)
    pushed = moved(found["push"]) if "push" in found else "unclear"
    if patch.metric not in CORRECT:
        return pushed
    wrong = found["violations_after"].value - found["violations_before"].value
    up_signs = [gained >= CLEARLY and wrong <= CLEARLY, pushed == "up"]
    down_signs = [gained <= -CLEARLY, pushed == "down", wrong > CLEARLY]
    if any(up_signs) == any(down_signs):
        return "unclear"
    if any(up_signs):
        return "unclear" if refused else "up"
    return "down"


def by_length(stored: Stored, after: Signal, revived: Flags) -> Flags:
    """Groups that came to life although no result is better, in step with tokens or turns."""
    facts, found = stored.facts, np.zeros(stored.groups, dtype=bool)
    same = np.ones(stored.groups, dtype=bool)
    for name in ("valid", "optimal"):
        same &= ranges(stored, facts[name]) < SAME
    for name in ("tokens", "turns"):
        found |= np.abs(within(stored, after.rewards, facts[name])) >= 0.9
    return revived & same & found


def within(stored: Stored, one: Numbers, other: Numbers) -> Numbers:
    """The correlation of two columns within each group; 0 where one of them is constant."""
    one, other = centred(stored, one), centred(stored, other)
    product = over_groups(stored, one * other)
    scale = np.sqrt(over_groups(stored, one**2) * over_groups(stored, other**2))
    return np.where(scale > SAME, product / np.where(scale > SAME, scale, 1.0), 0.0)


def commonest(values: Numbers) -> int:
    """How many rollouts have the value that most have."""
    return int(np.unique(np.round(values, 6), return_counts=True)[1].max(initial=0))


def normalised_away(stored: Stored, added: Numbers) -> float:
    """The share of what the change pays that is the same for the whole group."""
    paid = float(np.abs(added).sum())
    left = float(np.abs(centred(stored, added)).sum())
    return max(0.0, 1 - left / paid) if paid > 0 else 0.0


class Pairs(NamedTuple):
    """Rollouts of one group, two by two."""

    one: Rows
    other: Rows
    """Where they are ordered, the worse."""
    ordered: Flags
    equal: Flags
    """Neither result is better."""


def pairs_of(stored: Stored, components: Mapping[str, object]) -> Iterator[Pairs]:
    """All pairs, by how far apart the two lie."""
    results = [stored.facts[name] for name in RESULTS if name in components]
    largest = int(np.bincount(stored.group).max(initial=0)) if stored.n else 0
    for distance in range(1, largest):
        first = np.arange(stored.n - distance)
        first = first[stored.group[first] == stored.group[first + distance]]
        second = first + distance
        order = compared(stored.facts["valid"], first, second)
        order = np.where(order == 0, compared(stored.facts["optimal"], first, second), order)
        parts = [compared(result, first, second) for result in results]
        if parts:  # better where nothing is worse and something is better
            least, most = np.minimum.reduce(parts), np.maximum.reduce(parts)
            finer = np.where(least >= 0, most, np.where(most <= 0, least, np.nan))
            order = np.where(order == 0, finer, order)
        swapped = order < 0
        one, other = np.where(swapped, second, first), np.where(swapped, first, second)
        yield Pairs(one, other, np.abs(order) == 1, order == 0)


def compared(values: Numbers, first: Rows, second: Rows) -> Numbers:
    """1 where the first is larger, -1 where the second is."""
    apart = values[first] - values[second]
    return np.where(np.abs(apart) < SAME, 0.0, np.sign(apart))


def violations(pairs: list[Pairs], rewards: Numbers) -> Measure:
    """The share of pairs in which the worse result earns more."""
    wrong = total = 0
    for some in pairs:
        wrong += int((some.ordered & (rewards[some.other] > rewards[some.one] + SAME)).sum())
        total += int(some.ordered.sum())
    return share(wrong, total)


def told_apart(stored: Stored, pairs: list[Pairs], rewards: Numbers) -> Flags:
    """Groups in which some better result earns more than a worse one, and none earns less."""
    right, wrong = (np.zeros(stored.groups, dtype=bool) for _ in range(2))
    for some in pairs:
        ahead = rewards[some.one] - rewards[some.other]
        right[stored.group[some.one[some.ordered & (ahead >= SAME)]]] = True
        wrong[stored.group[some.one[some.ordered & (ahead <= -SAME)]]] = True
    return right & ~wrong


def paid_among_equals(pairs: list[Pairs], rewards: Numbers, fact: Numbers) -> Measure:
    """The correlation of reward and fact over pairs with equal results; 0 where nothing differs."""
    products = own = theirs = 0.0
    n = 0
    for some in pairs:
        chosen = some.equal
        earned = (rewards[some.one] - rewards[some.other])[chosen]
        differ = (fact[some.one] - fact[some.other])[chosen]
        products += float(earned @ differ)
        own += float(earned @ earned)
        theirs += float(differ @ differ)
        n += int(chosen.sum())
    scale = (own * theirs) ** 0.5
    return count(products / scale if scale > 0 else 0.0, n)


def correlation(one: Numbers, other: Numbers) -> Measure:
    """Over all rollouts; 0 where one of them is constant."""
    if len(one) < 2 or np.ptp(one) < SAME or np.ptp(other) < SAME:
        return count(0.0, len(one))
    return count(float(np.corrcoef(one, other)[0, 1]), len(one))
