"""The backtest of a reward: stored rollouts are rewarded anew, as training would have done it."""

from typing import NamedTuple

import numpy as np

from coevolve.backtests.numbers import (
    CORRECT,
    LENGTH,
    QUANTITIES,
    SIGNAL,
    about_signal,
    beyond_noise,
    count,
    follows,
    mean,
    moved,
    percent,
    share,
)
from coevolve.backtests.order import (
    correlation,
    paid_among_equals,
    pairs_of,
    told_apart,
    violations,
)
from coevolve.backtests.replay import Stored
from coevolve.backtests.signal import Signal, change_of, highest, over_groups, push
from coevolve.core.errors import UserError
from coevolve.domains.base import Domain
from coevolve.harness.backtest import Backtest, Measure, Prediction
from coevolve.harness.expression import Numbers, expression
from coevolve.harness.filters import Flags
from coevolve.harness.patch import Patch
from coevolve.harness.reward import FACTS
from coevolve.harness.rules import BacktestRule
from coevolve.store.cells import SAME

UNCHANGED = 0.01
"""Advantages that move by less, in spreads of a group, have not moved."""
EVERYBODY = 0.98
"""A bonus that at least this share of rollouts earns is a bonus for everybody."""
INFLATES = 0.5
"""Correlation with length among equal results from which a reward pays for length."""
SLIGHTLY, CLEARLY = 0.01, 0.05
"""Share of groups that must come to life, or die, for a prediction about diagnostics of the signal,
and about the score."""


class Ways(NamedTuple):
    """The two ways of rewarding the same rollouts."""

    before: Signal
    after: Signal


def backtest_reward(
    patch: Patch, stored: Stored, ways: Ways, domain: Domain, rule: BacktestRule
) -> Backtest:
    """Measure, judge, predict."""
    measures = measured(patch, stored, ways, domain)
    wrong = problems(patch, measures, rule)
    said = (
        f"dead groups {percent(measures['dead_before'])} before, "
        f"{measures['dead_after'].value:.1%} after; {measures['revived'].value:.0f} revived, "
        f"{measures['killed'].value:.0f} killed; wrong order in "
        f"{percent(measures['violations_after'])} pairs, before "
        f"{measures['violations_before'].value:.1%}"
    )
    return Backtest(
        passed=not wrong,
        words=f"{'; '.join(wrong)} ({said})" if wrong else said,
        prediction=predicted(patch, measures, bool(wrong)),
        measures=measures,
    )


def check_names(text: str, domain: Domain) -> None:
    """Refuse an expression that training would refuse."""
    names = expression(text).names
    expression(text).check({**FACTS, **domain.components})
    if not names:
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
    for name in sorted(expression(patch.value).names):
        found[f"flat.{name}"] = share(flat(stored, facts[name]), groups)
    if fact := QUANTITIES.get(patch.metric):
        found["push"] = push(stored, before, after, facts[fact])
    return found


def problems(patch: Patch, found: dict[str, Measure], rule: BacktestRule) -> list[str]:
    """Why a reward should not be trained."""
    wrong = []
    rise = found["violations_after"].value - found["violations_before"].value
    if rise > rule.most_wrong:
        wrong.append(f"worse results are newly ranked above better ones in {rise:.1%} of the pairs")
    if found["advantage_change"].value < UNCHANGED:
        wrong.append("within groups nothing changes: the same advantages as before")
    elif blurs(found):
        wrong.append(
            f"in {percent(found['blurred'])} groups better and worse results newly earn the same"
        )
    elif found["paid_alike"].value >= EVERYBODY:
        wrong.append(
            f"{found['paid_alike'].value:.1%} of the rollouts earn the same from the change, which "
            "comparing within groups takes away again"
        )
    if about_signal(patch) and found["dead_after"].value >= found["dead_before"].value:
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


def blurs(found: dict[str, Measure]) -> bool:
    """Whether groups die whose results differ, and clearly more of them than come to life."""
    lost = found["blurred"].value - found["revived"].value / max(found["blurred"].n, 1)
    return lost >= CLEARLY


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
        same &= highest(stored, facts[name]) + highest(stored, -facts[name]) < SAME
    for name in ("tokens", "turns"):
        found |= np.abs(within(stored, after.rewards, facts[name])) >= 0.9
    return revived & same & found


def within(stored: Stored, one: Numbers, other: Numbers) -> Numbers:
    """The correlation of two columns within each group; 0 where one of them is constant."""
    sizes = over_groups(stored, np.ones(stored.n))
    centred = [v - (over_groups(stored, v) / sizes)[stored.group] for v in (one, other)]
    product = over_groups(stored, centred[0] * centred[1])
    scale = np.sqrt(over_groups(stored, centred[0] ** 2) * over_groups(stored, centred[1] ** 2))
    return np.where(scale > SAME, product / np.where(scale > SAME, scale, 1.0), 0.0)


def commonest(values: Numbers) -> int:
    """How many rollouts have the value that most have."""
    return int(np.unique(np.round(values, 6), return_counts=True)[1].max(initial=0))


def normalised_away(stored: Stored, added: Numbers) -> float:
    """The share of what the change pays that is the same for the whole group."""
    paid = float(np.abs(added).sum())
    middle = over_groups(stored, added) / over_groups(stored, np.ones(stored.n))
    left = float(np.abs(added - middle[stored.group]).sum())
    return max(0.0, 1 - left / paid) if paid > 0 else 0.0


def flat(stored: Stored, values: Numbers) -> int:
    """Groups in which a component is the same for all."""
    return int((highest(stored, values) + highest(stored, -values) < SAME).sum())
