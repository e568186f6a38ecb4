"""Estimates over seeds, and the table of a comparison."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from arms import comparison
from scipy import stats

from coevolve.cli.comparison_table import cells, how, warnings
from coevolve.core.errors import UserError
from coevolve.evaluation.arms import ArmResult, table
from coevolve.evaluation.forest import caption, draw_forest
from coevolve.evaluation.seeds import change, holm, mean_rate


def outcomes(*rates: float, n: int = 100) -> list[list[bool]]:
    return [[index < round(rate * n) for index in range(n)] for rate in rates]


def test_a_mean_over_seeds_has_students_interval() -> None:
    found = mean_rate(outcomes(0.4, 0.5, 0.6))
    low, high = stats.t.interval(0.95, 2, loc=0.5, scale=0.1 / 3**0.5)
    assert found[:3] == pytest.approx((0.5, low, high))
    assert (found.n, found.over) == (3, "seeds")


def test_one_seed_is_counted_by_tasks() -> None:
    found = mean_rate(outcomes(0.5))
    assert (found.n, found.over) == (100, "tasks")
    assert 0.4 < found.low < 0.41
    moved = change(outcomes(0.5), outcomes(0.7))
    assert (moved.n, moved.over) == (100, "tasks")
    assert moved.mean == pytest.approx(0.2)
    assert moved.low > 0.1
    assert moved.p < 0.001


def test_several_answers_to_a_task_count_as_one() -> None:
    """Every task tried four times, all with one result: no more is known than from one try."""
    once, four = outcomes(0.5), [[sum([value] * 4) / 4 for value in outcomes(0.5)[0]]]
    assert mean_rate(four) == mean_rate(once)
    apart = mean_rate([[0.5] * 100])
    assert (apart.mean, apart.n) == (0.5, 100)


def test_pairing_by_seed_sees_what_unpaired_seeds_would_not() -> None:
    before, after = outcomes(0.2, 0.5, 0.8), outcomes(0.25, 0.56, 0.84)
    found = change(before, after)
    expected = stats.ttest_rel([0.25, 0.56, 0.84], [0.2, 0.5, 0.8])
    interval = expected.confidence_interval()
    assert found[:4] == pytest.approx((0.05, interval.low, interval.high, expected.pvalue))
    assert found.low > 0
    assert mean_rate(before).high > mean_rate(after).low


def test_seeds_that_agree_to_the_last_digit_are_no_certainty() -> None:
    assert change(outcomes(0.5, 0.6), outcomes(0.6, 0.7)).p == pytest.approx(0.5)
    assert change(outcomes(0.5, 0.6), outcomes(0.5, 0.6)).p == 1.0


def test_intervals_hold_what_they_promise() -> None:
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(400):
        rates = np.clip(rng.normal(0.5, 0.05, size=4), 0, 1)
        found = mean_rate([list(rng.random(400) < rate) for rate in rates])
        inside += found.low <= 0.5 <= found.high
    assert 0.92 <= inside / 400 <= 0.98


def test_holms_correction() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


def results(arms: dict[str, list[float]], **changes: Any) -> list[ArmResult]:
    """Results of arms that had these valid rates, by seed."""
    one = comparison(
        seeds=5, arms={name: {"engineers": ["fixed"]} for name in arms if name != "untrained"}
    )
    jobs = {(job.arm, job.seed): job for job in one.jobs()}
    return [
        ArmResult(
            job=jobs[arm, seed], policy="p", ended="done", tasks_hash=f"tasks-{seed}",
            valid=tuple(outcomes(rate)[0]), optimal=tuple(outcomes(rate / 2)[0]),
            calls=2, taken=seed, **changes,
        )
        for arm, rates in arms.items()
        for seed, rate in enumerate(rates)
    ]  # fmt: skip


ARMS = {
    "untrained": [0.2, 0.25, 0.22],
    "fixed": [0.4, 0.45, 0.5],
    "better": [0.52, 0.55, 0.6],
    "worse": [0.3, 0.36, 0.4],
    "cut-short": [0.45, 0.46],
}


def test_the_table_is_sorted_and_paired_by_the_seeds_that_both_have() -> None:
    rows = table(results(ARMS), "fixed")
    assert [row.arm for row in rows] == ["better", "cut-short", "fixed", "worse", "untrained"]
    found = {row.arm: row for row in rows}
    assert found["fixed"].valid_change is None
    assert found["better"].valid_change is not None
    assert found["better"].valid_change.mean == pytest.approx(0.1066667)
    assert found["better"].optimal_change is not None
    assert found["cut-short"].valid_change is not None
    assert found["cut-short"].valid_change.n == 2
    assert found["cut-short"].valid_change.mean == pytest.approx(0.03)
    assert found["better"].totals["taken"] == 1
    corrected = found["better"].p_holm
    assert corrected is not None
    assert corrected >= found["better"].valid_change.p
    assert found["untrained"].p_holm is None


def test_an_arm_that_trades_optimal_for_valid_answers_is_named() -> None:
    found = results(ARMS)
    worse = [
        one.model_copy(update={"optimal": tuple(outcomes(0.05)[0])})
        if one.job.arm == "better"
        else one
        for one in found
    ]
    rows = {row.arm: row for row in table(worse, "fixed")}
    falls = rows["better"].falls
    assert {name: [one.metric for one in fell] for name, fell in falls.items()} == {
        "untrained": ["optimal"], "fixed": ["optimal"],
    }  # fmt: skip
    (fall,) = falls["fixed"]
    assert (fall.before, fall.after, fall.n) == pytest.approx((0.2233333, 0.05, 3))
    assert rows["untrained"].falls == {}
    lines = warnings(list(rows.values()))
    assert any("better, beside fixed: optimal fell from 22.3 % to 5.0 %" in one for one in lines)
    assert rows["better"].as_json()["falls"]["fixed"][0]["metric"] == "optimal"
    assert cells(rows["better"])["optimal - {reference}"].startswith("-17.3 [")


def test_an_arm_that_was_trained_less_is_named() -> None:
    more = [
        one.model_copy(update={"train_rollouts": 100 if one.job.arm == "fixed" else 400})
        for one in results(ARMS)
    ]
    lines = [one for one in warnings(table(more, "fixed")) if "used" in one]
    assert lines == ["beware: fixed used 100 rollouts, others up to 400: no fair comparison"]


def test_other_tasks_are_not_compared() -> None:
    found = results(ARMS)
    odd = [
        one.model_copy(update={"tasks_hash": "odd"}) if one.job.name == "better/seed-1" else one
        for one in found
    ]
    with pytest.raises(UserError, match="better/seed-1 and fixed/seed-1 were measured on diff"):
        table(odd, "fixed")


def test_a_failed_reference_leaves_rates_without_differences() -> None:
    rows = table([one for one in results(ARMS) if one.job.arm != "fixed"], "fixed")
    assert all(row.valid_change is None for row in rows)


@pytest.mark.parametrize("kept", [(0,), (1, 2)])
def test_one_pair_of_several_seeds_gives_no_difference(kept: tuple[int, ...]) -> None:
    """Over tasks it would pass for one over seeds."""
    arms = {"fixed": [0.4, 0.45, 0.5], "better": [0.9, 0.91, 0.92], "once": [0.9]}
    rows = table([r for r in results(arms) if r.job.arm != "fixed" or r.job.seed in kept], "fixed")
    found = {row.arm: row for row in rows}
    better, once = found["better"], found["once"]
    assert cells(found["fixed"])["seeds"] == str(len(kept))
    assert cells(better)["seeds"] == f"3, {len(kept)} paired"
    assert "over seeds (Student), differences paired by seed; of one seed, over tasks" in how(rows)
    assert caption(rows).endswith("paired by seed; of one seed, over tasks")
    if len(kept) == 1:
        assert (better.valid_change, better.optimal_change, better.p_holm) == (None, None, None)
        assert cells(better)["p"] == "-"
        assert once.valid_change is not None
        assert once.valid_change.over == "tasks"
    else:
        assert better.valid_change is not None
        assert (better.valid_change.n, better.valid_change.over) == (2, "seeds")
        assert (once.pairs, once.valid_change) == (0, None)


def test_the_picture_says_what_n_is(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = table(results(ARMS), "fixed")
    draw_forest(rows, "test", "fixed", tmp_path / "arms.png")
    assert (tmp_path / "arms.png").stat().st_size > 10_000
    assert caption(rows).startswith("n = 2 to 3 seeds x 100 tasks")
    one = table([r for r in results(ARMS) if r.job.seed == 0], "fixed")
    assert caption(one).startswith("n = 1 seed x 100 tasks")
    draw_forest(one, "test", "fixed", tmp_path / "one.png")
