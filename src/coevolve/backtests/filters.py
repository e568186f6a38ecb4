"""The backtest of filters: a stored training is replayed step by step under them."""

from coevolve.backtests.numbers import (
    CORRECT,
    QUANTITIES,
    count,
    judged,
    mean,
    moved,
    percent,
    share,
)
from coevolve.backtests.replay import Stored
from coevolve.backtests.reward import UNCHANGED, Ways, differs
from coevolve.backtests.signal import Signal, change_of, over_groups, push, push_per_used
from coevolve.harness.backtest import Backtest, Measure, Prediction
from coevolve.harness.expression import Numbers
from coevolve.harness.filters import Flags, codes_of
from coevolve.harness.harness import Harness
from coevolve.harness.patch import Patch
from coevolve.harness.rules import BacktestRule

MUCH = 0.8
"""Share of the data with signal that must be left for a prediction that the score rises."""


HEAVY = 2.0
"""Mean weight from which functions do what a learning rate is for; likewise one over it."""


def backtest_filters(
    patch: Patch,
    after: Harness,
    stored: Stored,
    ways: Ways,
    weights: tuple[Numbers, Numbers],
    rule: BacktestRule,
) -> Backtest:
    """Measure, judge, predict."""
    keep = weights[0] > 0, weights[1] > 0
    measures = measured(patch, stored, ways, keep)
    measures["weight"] = mean(weights[1][keep[1]])
    wrong = [*unsound(after, stored, ways[1]), *problems(measures, rule)]
    said = (
        f"{percent(measures['rollouts_kept'])} rollouts are kept, before "
        f"{measures['rollouts_kept_before'].value:.1%}; of those with signal "
        f"{percent(measures['data_left'])} are left; {percent(measures['successes_cut'])} "
        f"successes with signal are cut off"
    )
    return judged(wrong, said, predicted(patch, measures, rule), measures)


def unsound(after: Harness, stored: Stored, way: Signal) -> list[str]:
    """Why functions among filters are none that training can go by."""
    if not (codes := codes_of(after.filters)):
        return []
    first = stored.weighed(codes, way.rewards)
    return differs(stored, stored.weighed(codes, way.rewards, backwards=True), first.values)


def measured(
    patch: Patch, stored: Stored, ways: Ways, keep: tuple[Flags, Flags]
) -> dict[str, Measure]:
    before, after = ways
    tokens, valid = stored.facts["tokens"], stored.facts["valid"] > 0
    earlier, later = (over_groups(stored, flags.astype(float)) > 0 for flags in keep)
    found = {
        "rollouts_kept_before": share(keep[0].sum(), stored.n),
        "rollouts_kept": share(keep[1].sum(), stored.n),
        "groups_kept_before": share(earlier.sum(), stored.groups),
        "groups_kept": share(later.sum(), stored.groups),
        "tokens_kept": count(
            tokens[keep[1]].sum() / max(tokens.sum(), 1.0), int(tokens.sum())
        ),
        "dead_left_before": share((earlier & ~before.live).sum(), int(earlier.sum())),
        "dead_left": share((later & ~after.live).sum(), int(later.sum())),
        "data_before": count(before.used.sum(), stored.n),
        "data_after": count(after.used.sum(), stored.n),
        "data_left": count(
            after.used.sum() / max(int(before.used.sum()), 1), int(before.used.sum())
        ),
        "successes_cut_at_all": share(
            (valid & keep[0] & ~keep[1]).sum(), int((valid & keep[0]).sum())
        ),
        "successes_cut": share(
            (valid & before.used & ~after.used).sum(), int((valid & before.used).sum())
        ),
        "advantage_change": change_of(before, after),
    }  # fmt: skip
    if fact := QUANTITIES.get(patch.metric):
        values = stored.facts[fact]
        found["push"] = push(stored, before, after, values)
        found["push_per_used"] = push_per_used(stored, before, after, values)
    return found


def problems(found: dict[str, Measure], rule: BacktestRule) -> list[str]:
    """Why filters should not be trained with."""
    wrong = []
    if found["data_left"].value < rule.least_left:
        wrong.append(
            f"too little is left: {found['data_after'].value:,.0f} of "
            f"{found['data_before'].value:,.0f} rollouts with signal"
        )
    if found["successes_cut"].value > rule.most_cut:
        wrong.append(f"{found['successes_cut'].value:.0%} of the successes with signal are cut off")
    if found["weight"].n and not 1 / HEAVY < found["weight"].value < HEAVY:
        wrong.append(
            f"what is kept weighs {found['weight'].value:.2g} on average, as if the learning rate "
            "were so many times as large: let weights be 1 on average"
        )
    if found["advantage_change"].value < UNCHANGED:
        wrong.append("nothing changes: what is left out or let in carries no signal")
    return wrong


def predicted(patch: Patch, found: dict[str, Measure], rule: BacktestRule) -> Prediction:
    """Where the metric goes."""
    left = found["data_left"].value
    if patch.metric in CORRECT and left < rule.least_left:
        return "down"
    if patch.metric == "dead_groups":
        return "unclear"  # what is drawn does not change, only what is learned from
    if "push_per_used" not in found:
        return "unclear"
    better, amount = moved(found["push_per_used"]), moved(found["push"])
    if patch.metric not in CORRECT:
        return amount
    if better == "up" and left >= MUCH:
        return "up"
    return "down" if better == "down" and amount == "down" else "unclear"
