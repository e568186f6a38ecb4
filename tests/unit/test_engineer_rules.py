"""Rules that engineer, and the region that keeps what they propose near the incumbent."""

import math
import re
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from views import by_size, cell, finished, three_sizes, view

from coevolve.core.errors import UserError
from coevolve.domains.knobs import Knob, KnobSpace
from coevolve.domains.lake.knobs import SPACE
from coevolve.engineers import ask
from coevolve.engineers.base import MOST_WORDS, Edit, View, change_knobs, proposals_of
from coevolve.engineers.frontier import MAINTENANCE
from coevolve.engineers.reach import apply, edited, within
from coevolve.engineers.registry import ENGINEERS, make_engineer
from coevolve.engineers.signals import evidence, standing
from coevolve.harness.patch import Patch
from coevolve.harness.proposal import Proposal

TOY = KnobSpace(
    (
        Knob("a.share", 0, 1, 0.5, "share", "share of a", group="kinds", label=("kind", "a")),
        Knob("b.share", 0, 1, 0.5, "share", "share of b", group="kinds", label=("kind", "b")),
        Knob("c.share", 0, 1, 0.0, "share", "share of c", group="kinds", label=("kind", "c")),
        Knob("a.depth", 1, 9, 3, "levels", "mean depth of a", integer=True, harder=1),
        Knob("hints", 0, 10, 5, "hints", "hints per task", harder=-1),
    )
)

anything = st.one_of(
    st.floats(),
    st.sampled_from([1e308, -1e308, math.nan, math.inf, 10**400, 0, 1, 0.5]),
    st.integers(),
    st.text(max_size=3),
    st.none(),
    st.booleans(),
    st.just([1, {"a": 2}]),
    st.just({"nested": {"knob": 1}}),
)
names = st.sampled_from([*SPACE.knobs, "nonsense", ""])
edits = st.builds(
    Edit,
    knob=names,
    action=st.sampled_from(["raise", "lower", "set"]),
    value=st.one_of(st.none(), st.floats(), st.floats(0, 1)),
)
proposals = st.one_of(
    st.dictionaries(names, anything, max_size=40),
    st.lists(edits, max_size=12).map(tuple),
)
"""Knobs, or edits of them."""


def reached(wanted, incumbent, reach):
    """What knobs, or edits, come to."""
    values = edited(wanted, incumbent, reach) if isinstance(wanted, tuple) else wanted
    return apply(values, incumbent, reach)


@settings(max_examples=150)
@given(proposals, st.integers(0, 3), st.sampled_from([0.01, 0.1, 0.25, 1.0]))
def test_whatever_comes_in_the_result_is_valid_and_within_the_region(wanted, seed, reach):
    incumbent = SPACE.random(seed) if seed else SPACE.defaults()
    result = reached(wanted, incumbent, reach)
    assert dict(SPACE.parse(dict(result))) == dict(result)
    assert within(result, SPACE.project({}, base=incumbent), reach)


def test_nothing_proposed_is_the_incumbent():
    incumbent = SPACE.random(7)
    assert apply({}, incumbent, 0.2) is incumbent
    assert apply({"nonsense": 1, "size3.hole_ratio": "x"}, incumbent, 0.2) is incumbent
    assert reached((), incumbent, 0.2) is incumbent
    assert reached((Edit(knob="hole", action="raise"),), incumbent, 0.2) is incumbent
    assert edited((Edit(knob="size3.hole_ratio", action="set"),), incumbent, 0.2) == {}


def test_what_changes_nothing_is_no_patch():
    assert change_knobs({}, "as it was") == Proposal(words="as it was")
    said = change_knobs({"hints": 3}, "", "me").patch
    assert (said.factor, said.value, said.author) == ("knobs", {"hints": 3}, "me")
    assert len(change_knobs({"hints": 3}, "x" * 9_999).patch.hypothesis) == MOST_WORDS


def test_a_bare_patch_is_a_proposal_of_it():
    said = change_knobs({"hints": 3}, "fewer hints")
    assert proposals_of([said]) == [said]
    assert proposals_of((said.patch,)) == [said]
    assert proposals_of(iter([said.patch])) == [said]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (None, "propose returned None; return a list"),
        ("easier", "propose returned 'easier'; return a list"),
        (
            Patch(factor="knobs", value={}, hypothesis="fewer"),
            r"propose returned Patch\(.*; return a list",
        ),
        (["easier"], "a list with 'easier'; make it a coevolve.Patch"),
        ([{"factor": "knobs"}], r"a list with \{'factor': 'knobs'\}; make it"),
    ],
)
def test_what_an_engineer_returns_by_mistake_is_its_failure(said, words):
    def make():
        return SimpleNamespace(propose=lambda view, seed: said)

    (found,) = ask.proposed(make, view(), 1, 60.0)
    assert found.patch is None
    assert re.search(words, found.failure)


def test_a_huge_proposal_is_taken_in_time():
    huge = {f"knob{number}": number for number in range(200_000)}
    result = apply({**huge, "size3.hole_ratio": 0.3}, SPACE.defaults(), 0.2)
    assert result["size3.hole_ratio"] == 0.3


@pytest.mark.parametrize("reach", [0, -1, 2, math.nan])
def test_a_region_must_be_a_part(reach):
    with pytest.raises(UserError, match="reach"):
        apply({}, SPACE.defaults(), reach)


def test_steps_of_edits_follow_the_region():
    edits = (
        Edit(knob="hints", action="lower"),
        Edit(knob="a.depth", action="raise"),
        Edit(knob="c.share", action="raise"),
    )
    result = reached(edits, TOY.defaults(), 0.1)
    assert result["hints"] == pytest.approx(4)
    assert result["a.depth"] == 4  # a tenth of eight levels is less than one, and one is the least
    assert result["c.share"] == pytest.approx(0.05 / 1.05)
    twice = (Edit(knob="hints", action="raise"),) * 5
    assert reached(twice, TOY.defaults(), 0.1)["hints"] == pytest.approx(6)


def test_shares_that_are_set_stay_as_set():
    edits = (Edit(knob="a.share", action="set", value=0.6),)
    result = reached(edits, TOY.defaults(), 0.2)
    assert result["a.share"] == pytest.approx(0.6)
    assert result["b.share"] == pytest.approx(0.4)


def test_at_most_the_region_of_a_group_changes_hands():
    result = apply({"a.share": 0, "b.share": 0, "c.share": 1}, TOY.defaults(), 0.2)
    assert [result[f"{kind}.share"] for kind in "abc"] == pytest.approx([0.4, 0.4, 0.2])


def test_a_change_that_drags_others_out_of_the_region_is_left_out():
    incumbent = SPACE.parse({"size3.data_ratio": 1, "size3.hole_ratio": 0.5})
    wanted = {"agents5.share": 0.1, "size3.wait_ratio": 0.55}
    result = apply(wanted, incumbent, 0.1)
    assert result["agents5.share"] == 0  # five agents need a 3x3 board with hardly any holes
    assert result["size3.hole_ratio"] == 0.5
    assert result["size3.wait_ratio"] == 0.55


def proposed(engineer, seen, reach=1.0):
    (proposal,) = engineer.propose(seen, 1)
    assert not proposal.failure
    return apply(proposal.patch.value if proposal.patch else {}, seen.incumbent, reach)


def share(knobs, size):
    return knobs[f"size{size}.data_ratio"]


MIXED = {3: 0.95, 4: 0.5, 5: 0.0}


def mixed_view(n=60):
    cells = by_size({3: 0.95, 4: 0.5}, n) + by_size({5: 0.0}, n, groups=12, dead=12)
    return view(finished(dev=by_size(MIXED), train=cells), knobs=three_sizes())


def test_unknown_engineers_are_answered_with_the_nearest():
    assert {name: make_engineer(name).name for name in ENGINEERS} == {n: n for n in ENGINEERS}
    with pytest.raises(UserError, match="did you mean 'frontier'"):
        make_engineer("fronteer")


def test_fixed_keeps_everything():
    seen = mixed_view()
    assert proposed(make_engineer("fixed"), seen) is seen.incumbent


def test_random_follows_the_seed_and_the_round():
    seen = mixed_view()
    (one,), (two,) = (
        make_engineer("random").propose(seen, 1),
        make_engineer("random").propose(seen, 2),
    )
    assert one.patch.value != two.patch.value
    later = seen._replace(history=(*seen.history, finished(1)))
    assert make_engineer("random").propose(later, 1)[0].patch.value != one.patch.value


def test_uniform_shares_out_evenly_and_leaves_difficulty_alone():
    skewed = SPACE.parse(
        {"size3.data_ratio": 0.9, "size12.data_ratio": 0.1, "size3.hole_ratio": 0.4}
    )
    result = proposed(make_engineer("uniform"), view(knobs=skewed))
    assert [share(result, size) for size in (3, 7, 10, 12)] == pytest.approx([1 / 9] * 4)
    assert share(result, 11) == 0
    assert result["size3.hole_ratio"] == 0.4


def test_learnability_prefers_even_odds():
    result = proposed(make_engineer("learnability"), mixed_view())
    assert share(result, 4) > 0.5
    assert share(result, 3) > 0.06
    assert share(result, 5) > 0.06


def test_learnability_trusts_few_rollouts_less():
    few = proposed(make_engineer("learnability"), mixed_view(n=2))
    many = proposed(make_engineer("learnability"), mixed_view(n=600))
    assert share(few, 4) < share(many, 4)


def test_learnability_takes_dev_where_there_was_no_training():
    result = proposed(
        make_engineer("learnability"), view(finished(dev=by_size(MIXED)), knobs=three_sizes())
    )
    assert max((3, 4, 5), key=lambda size: share(result, size)) == 4


def spreads(values, number=0):
    train = tuple(
        cell({"size": size}, 30, 60, groups=10, spread=10 * deviation**2)
        for size, deviation in values.items()
    )
    return finished(number, train=train)


def test_bandit_prefers_spread_and_remembers():
    now = view(spreads({3: 0.1, 4: 0.4, 5: 0.1}), knobs=three_sizes())
    result = proposed(make_engineer("bandit"), now)
    assert share(result, 4) / share(result, 3) == pytest.approx(math.exp(0.3 / 0.2))
    before = spreads({3: 0.4, 4: 0.1, 5: 0.1})
    both = view(before, spreads({3: 0.1, 4: 0.4, 5: 0.1}, 1), knobs=three_sizes())
    remembered = proposed(make_engineer("bandit"), both)
    assert share(remembered, 5) < share(remembered, 3) == pytest.approx(share(remembered, 4))


def test_ceiling_opens_what_comes_next_and_never_lowers():
    hard = three_sizes(**{"size5.wait_ratio": 0.95})
    rates = by_size({3: 0.2, 4: 0.95, 5: 0.95})
    result = proposed(make_engineer("ceiling"), view(finished(train=rates), knobs=hard))
    assert share(result, 6) == pytest.approx(0.25)
    assert result["size5.hole_ratio"] == pytest.approx(0.25)
    assert result["size5.wait_ratio"] == 1
    assert result["size3.hole_ratio"] == 0.2


def test_ceiling_never_lowers_whatever_fails():
    nothing = view(finished(train=by_size({3: 0, 4: 0, 5: 0})), knobs=three_sizes())
    assert proposed(make_engineer("ceiling"), nothing) is nothing.incumbent
    few = view(finished(train=by_size({3: 1, 4: 1, 5: 1}, n=4)), knobs=three_sizes())
    assert share(proposed(make_engineer("ceiling"), few), 6) == 0


@pytest.mark.parametrize(("rates", "sign"), [({3: 1.0, 4: 0.9, 5: 0.6}, 1), ({3: 0.4, 4: 0}, -1)])
def test_target_moves_difficulty_towards_half(rates, sign):
    result = proposed(
        make_engineer("target"), view(finished(train=by_size(rates)), knobs=three_sizes())
    )
    assert sign * (result["size4.hole_ratio"] - 0.2) > 0.01
    assert sign * (1 / 3 - share(result, 3)) > 0.01


def test_target_rests_at_half():
    seen = view(finished(train=by_size({3: 0.8, 4: 0.5, 5: 0.2})), knobs=three_sizes())
    assert proposed(make_engineer("target"), seen) is seen.incumbent


def test_frontier_backs_off_the_dead_and_maintains_the_solved():
    seen = mixed_view()
    result = proposed(make_engineer("frontier"), seen)
    assert share(result, 4) > 1 / 3 > share(result, 3) > share(result, 5) > 0
    assert result["size3.hole_ratio"] == pytest.approx(0.275)
    assert result["size4.hole_ratio"] == 0.2
    assert result["size5.hole_ratio"] == pytest.approx(0.125)
    for _ in range(30):
        seen = seen._replace(incumbent=result)
        result = proposed(make_engineer("frontier"), seen)
    assert share(result, 3) == pytest.approx(MAINTENANCE / 3, rel=1e-3)
    assert 0 < share(result, 5) < share(result, 3)


def test_frontier_says_why_with_numbers():
    (proposal,) = make_engineer("frontier").propose(mixed_view(), 1)
    assert "size 5: 0 of 60 valid, 100 % of 12 groups dead: share 0.333 → 0.183" in proposal.words
    assert "size3.hole_ratio 0.2 → 0.275" in proposal.patch.hypothesis


def test_frontier_prefers_live_groups():
    live = by_size({3: 0.5}, groups=12, dead=1)
    stale = by_size({4: 0.5, 5: 0.5}, groups=12, dead=10)
    result = proposed(
        make_engineer("frontier"), view(finished(train=live + stale), knobs=three_sizes())
    )
    assert share(result, 3) > 1 / 3 > share(result, 4)


def test_frontier_opens_the_next_when_all_is_solved():
    seen = view(finished(train=by_size({3: 0.9, 4: 0.9, 5: 0.9})), knobs=three_sizes())
    result = proposed(make_engineer("frontier"), seen)
    assert 0.1 < share(result, 6) < 0.2
    assert result["agents3.share"] > 0


def test_frontier_backs_off_the_dead_even_if_the_rest_is_solved():
    cells = by_size({3: 0.9, 4: 0.9, 5: 0.0})
    result = proposed(make_engineer("frontier"), view(finished(train=cells), knobs=three_sizes()))
    assert share(result, 5) < 1 / 3 < share(result, 3)


def test_frontier_turns_round_after_a_reverted_round():
    incumbent = three_sizes()
    cells = by_size({3: 0.5, 4: 0.5, 5: 0.5})
    tried = SPACE.project({"size3.hole_ratio": 0.3, "size4.data_ratio": 0.5}, base=incumbent)
    seen = view(
        finished(0, knobs=incumbent, train=cells, verdict="kept"),
        finished(1, knobs=tried, train=by_size({3: 0.0}), verdict="reverted"),
        knobs=incumbent,
    )
    result = proposed(make_engineer("frontier"), seen)
    assert result["size3.hole_ratio"] == pytest.approx(0.15)
    assert share(result, 4) < 1 / 3 < share(result, 3)
    assert "round 1 was taken back" in make_engineer("frontier").propose(seen, 1)[0].words


def test_frontier_takes_smaller_steps_after_each_reverted_round():
    steps = []
    for reversals in range(3):
        history = [finished(0, knobs=three_sizes(), train=by_size(MIXED), verdict="kept")]
        history += [
            finished(number + 1, knobs=three_sizes(), verdict="reverted")
            for number in range(reversals)
        ]
        result = proposed(make_engineer("frontier"), view(*history, knobs=three_sizes()))
        steps.append(result["size3.hole_ratio"] - 0.2)
    assert steps == pytest.approx([0.075, 0.0375, 0.01875])


@pytest.mark.parametrize("name", ["frontier", "target", "ceiling"])
def test_other_domains_work_unchanged(name):
    cells = tuple(cell({"kind": kind}, 95, 100) for kind in "ab")
    seen = View(TOY, TOY.defaults(), (finished(knobs=TOY.defaults(), train=cells),), {})
    result = proposed(make_engineer(name), seen)
    assert result["a.depth"] > 3
    assert result["hints"] < 5


def test_a_training_that_was_taken_back_says_nothing_of_the_knobs_in_force():
    kept, failed = (
        finished(number, train=(cell({"size": 3}, valid, 60),), verdict=verdict)
        for number, (valid, verdict) in enumerate(((30, "kept"), (0, "reverted")))
    )
    assert evidence(failed).valid == 0
    assert standing(view(kept, failed)) is kept
    assert evidence(standing(view(kept, failed))).valid == 30
    assert standing(view(failed)) is failed, "there is nothing else"
