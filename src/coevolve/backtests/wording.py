"""The backtest of a wording: the parent asked the same tasks in the old words and in the new ones.

What training would make of it cannot be seen; that the policy understands them can.
"""

from collections.abc import Sequence

from coevolve.backtests.numbers import CORRECT, judged, share
from coevolve.core.rollout import Rollout, StopReason
from coevolve.evaluation.difference import by_task, paired
from coevolve.harness.backtest import Backtest, Measure, Prediction
from coevolve.harness.patch import Patch
from coevolve.harness.rules import BacktestRule


def backtest_wording(
    patch: Patch,
    before: Sequence[Rollout],
    after: Sequence[Rollout],
    failures: Sequence[str],
    alive: tuple[int, int],
    rule: BacktestRule,
) -> Backtest:
    """`failures` are those of a wording that is a function; `alive` are the groups that carry
    signal in the new words, and all of them."""
    metric = patch.metric if patch.metric in ("valid", "optimal") else "valid"
    change = paired(by_task(before, metric), by_task(after, metric))
    cut = [sum(one.stop is StopReason.LENGTH for one in side) for side in (before, after)]
    measures = {
        f"{metric}_change": Measure(
            value=change.mean, n=change.n, low=change.low, high=change.high
        ),
        "alive": share(*alive),
        "truncated_before": share(cut[0], len(before)),
        "truncated": share(cut[1], len(after)),
    }
    wrong = []
    if failures:
        wrong.append(f"it fails on {len(failures)} tasks: {failures[0]}")
    if change.high < 0:
        wrong.append(f"asked in these words, fewer answers are {metric}")
    if measures["alive"].value < rule.least_alive:
        wrong.append("hardly anything to learn from")
    said = (
        f"{metric} {change.told(metric)} in the new words; {measures['alive'].value:.0%} of "
        f"{alive[1]} groups carry signal"
    )
    prediction: Prediction = "unclear"
    if patch.metric in CORRECT and (change.low > 0 or change.high < 0):
        prediction = "up" if change.low > 0 else "down"
    return judged(wrong, said, prediction, measures)
