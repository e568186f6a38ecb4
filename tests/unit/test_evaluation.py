"""Rates, intervals and tallies."""

import pytest

from coevolve.core.errors import UserError
from coevolve.core.splits import Split
from coevolve.domains.lake.domain import LakeDomain
from coevolve.evaluation.attempts import attempts
from coevolve.evaluation.heatmap import draw_heatmap
from coevolve.evaluation.statistics import wilson
from coevolve.evaluation.tally import tally
from coevolve.policies.base import Sampling
from coevolve.policies.script import ScriptedPolicy

DOMAIN = LakeDomain()


@pytest.fixture(scope="module")
def tasks():
    knobs = DOMAIN.space.parse(
        {
            "agents2.share": 0.4,
            "agents4.share": 0.6,
            "size3.hole_ratio": 0.2,
            "size5.hole_ratio": 0.3,
        }
    )
    return list(DOMAIN.generate(knobs, 150, 0, Split.DEV))


def measured(name, tasks, seed=0):
    return tally(attempts(DOMAIN, ScriptedPolicy(DOMAIN, name), tasks, Sampling(seed=seed)))


@pytest.mark.parametrize("n", [1, 7, 300, 1_000_000])
def test_wilson_intervals_are_those_of_scipy(n):
    from scipy.stats import binomtest

    for successes in {0, 1, n // 3, n - 1, n}:
        for confidence in (0.9, 0.95):
            theirs = binomtest(successes, n).proportion_ci(confidence, method="wilson")
            ours = wilson(successes, n, confidence)
            assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_wilson_intervals_match_the_textbook():
    rate = wilson(8, 10)
    assert (rate.value, rate.n) == (0.8, 10)
    assert (rate.low, rate.high) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson(0, 0)[2:] == (0.0, 1.0)
    assert wilson(0, 20).low == 0


def test_the_oracle_is_perfect_and_the_others_are_in_order(tasks):
    rates = {name: measured(name, tasks).by([])[0] for name in DOMAIN.scripts}
    assert rates["oracle"].valid.value == rates["oracle"].optimal.value == 1
    assert rates["random"].valid.value < rates["greedy"].valid.value
    assert rates["greedy"].valid.value < rates["prioritised"].valid.value < 1
    assert rates["greedy"].valid == rates["greedy"].optimal
    assert sum(rates["greedy"].failures.values()) == len(tasks) - rates["greedy"].valid.successes


def test_policies_that_draw_are_seeded(tasks):
    first, again = measured("random", tasks, 1).buckets, measured("random", tasks, 1).buckets
    assert first == again
    answers = [
        [
            r.messages[-1].content
            for r in attempts(DOMAIN, ScriptedPolicy(DOMAIN, "random"), tasks[:5], Sampling(seed=s))
        ]
        for s in (1, 2)
    ]
    assert answers[0] != answers[1]


def test_groups_add_up(tasks):
    counts = measured("greedy", tasks)
    for labels in (["size"], ["agents", "wait"], ["size", "agents", "holes"]):
        groups = counts.by(labels)
        assert sum(group.valid.n for group in groups) == len(tasks)
    sizes = [group.labels["size"] for group in counts.by(["size"])]
    assert sizes == sorted(sizes)


def test_several_samples_of_each_task(tasks):
    found = list(
        attempts(DOMAIN, ScriptedPolicy(DOMAIN, "random"), tasks[:3], Sampling(), samples=4)
    )
    assert [r.sample for r in found] == [0, 1, 2, 3] * 3
    assert len({r.messages[-1].content for r in found}) > 3


def test_heat_map_is_a_picture(tasks, tmp_path):
    path = tmp_path / "rates.png"
    draw_heatmap({"greedy": measured("greedy", tasks)}, ("size", "agents", "wait"), path)
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    more = tmp_path / "more.png"  # a fourth label does not divide what is shown
    draw_heatmap({"greedy": measured("greedy", tasks)}, ("size", "agents", "wait", "holes"), more)
    assert more.read_bytes() == path.read_bytes()
    with pytest.raises(UserError, match="cannot write"):
        draw_heatmap(
            {"x": measured("oracle", tasks)}, ("size", "agents"), tmp_path / "no" / "x.png"
        )
