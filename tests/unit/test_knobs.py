"""Knobs: strict when parsed, forgiving when projected, always valid."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.core.errors import KnobError
from coevolve.domains.knobs import Knob, KnobSpace
from coevolve.domains.lake.knobs import SPACE
from coevolve.engineers.reach import apply, evenly, worth_a_trial

TOY = KnobSpace(
    (
        Knob("a.share", 0, 1, 0.5, "share", "share of a", group="kinds"),
        Knob("b.share", 0, 1, 0.5, "share", "share of b", group="kinds"),
        Knob("a.depth", 1, 9, 3, "levels", "mean depth of a", integer=True),
    )
)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size8.hole_ration": 0.1}, r"unknown knob .*did you mean 'size8.hole_ratio'"),
        ({"holes": 0.1}, r"unknown knob 'holes'. Known: .*sizeN.data_ratio, sizeN.hole_ratio"),
        ({"size8.hole_ratio": 0.7}, r"size8.hole_ratio = 0.7 is not a number from 0 to 0.5"),
        ({"size8.hole_ratio": math.nan}, r"size8.hole_ratio = nan"),
        ({"size8.hole_ratio": "0.1"}, r"size8.hole_ratio = '0.1'"),
        ({"size8.hole_ratio": True}, r"size8.hole_ratio = True"),
        ({"path_length.min": 1.5}, r"path_length.min = 1.5 is not a whole number"),
        ({"size8.data_ratio": 0.5}, r"shares of 'sizes' sum to 0.5; make them sum to 1"),
        ({"path_length.min": 9, "path_length.max": 3}, r"path_length.min = 9 is above"),
        (
            {"size3.data_ratio": 1, "agents5.share": 1, "size3.hole_ratio": 0.5},
            r"size3.hole_ratio = 0.5 leaves no room for 5 agents on 3x3 .* 0.222 or less",
        ),
        ({"size3.data_ratio": 1, "agents8.share": 1}, r"8 agents .* do not fit on 3x3 .*at most 6"),
        (
            {"agents1.share": 0.9, "agents2.share": 0.1},
            r"size3.wait_ratio = 0.5 cannot be met: a single agent .* 0.1 or less",
        ),
        ({"detour.max": 0}, r"cannot be met with detour.max = 0"),
        ({"detour.min": 1, "size8.hole_ratio": 0}, r"detour.min = 1 cannot be met on open ice"),
    ],
)
def test_impossible_knobs_are_refused_with_the_nearest_value(changes, message):
    with pytest.raises(KnobError, match=message):
        SPACE.parse(changes)


def test_naming_one_share_zeroes_the_others():
    knobs = SPACE.parse({"size5.data_ratio": 1})
    assert [name for name in knobs if name.endswith("data_ratio") and knobs[name]] == [
        "size5.data_ratio"
    ]


anything = st.one_of(
    st.floats(), st.integers(), st.text(max_size=3), st.none(), st.booleans(), st.just([1])
)


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from([*SPACE.knobs, "nonsense"]), anything, max_size=30))
def test_projection_always_gives_valid_knobs(changes):
    knobs = SPACE.project(changes)
    parsed = SPACE.parse(dict(knobs))
    assert dict(parsed) == dict(knobs)
    assert all(abs(knobs[n] - v) < 1e-9 for n, v in SPACE.project(dict(knobs)).items())


def test_projection_keeps_what_it_is_not_told_to_change():
    base = SPACE.random(5)
    changed = SPACE.project({"size8.hole_ratio": 0.11, "size9.hole_ratio": None}, base=base)
    assert changed.difference(base).keys() == {"size8.hole_ratio"}


def test_projection_scales_shares():
    knobs = TOY.project({"a.share": 1, "b.share": 3 - 2})
    assert knobs["a.share"] == knobs["b.share"] == 0.5


def test_random_knobs_are_seeded_and_keep_to_the_paper_sizes():
    assert dict(SPACE.random(1)) == dict(SPACE.random(1))
    assert dict(SPACE.random(1)) != dict(SPACE.random(2))
    assert all(SPACE.random(1)[f"size{size}.data_ratio"] == 0 for size in range(11, 33))


def test_description_names_value_range_unit_and_effect():
    text = TOY.parse({"a.share": 1}).describe()
    assert "- a.depth = 3 (from 1 to 9, levels): mean depth of a" in text
    assert "b.share" not in text.splitlines()[-2]
    assert "The shares of kinds sum to 1" in text
    assert len(SPACE.defaults().describe()) < 5_000


HELD = ("agents", "path_length.min", "size8.hole_ratio")


@settings(max_examples=200)
@given(
    st.dictionaries(st.sampled_from([*SPACE.knobs]), st.floats(0, 1000), max_size=30),
    st.sampled_from([0.1, 0.5, 1.0]),
)
def test_what_is_held_stays_whatever_is_proposed(changes, reach):
    start = SPACE.parse({"agents2.share": 0.4, "agents5.share": 0.6})
    held = SPACE.held(HELD, start)
    after = apply(changes, held.project(start), reach)
    moved = SPACE.parse(dict(after)).difference(start)
    own = {*SPACE.groups["agents"], *HELD[1:]}
    assert not own & moved.keys()
    worth_a_trial(held.project(start), after)


def test_what_is_held_is_not_offered_and_not_explored():
    start = SPACE.parse({"agents2.share": 1})
    held = SPACE.held(["agents", "size8.hole_ratio"], start)
    text = held.project(start).describe()
    assert "size8.wait_ratio" in text
    assert not any(name in text for name in ("agents", "size8.hole_ratio"))
    assert held.project(start).closed("agents") == []
    explored = evenly(held.project({"size8.data_ratio": 1}, held.project(start)), [{"agents": 5}])
    assert explored["agents2.share"] == 1
    assert SPACE.held((), start) is SPACE


def test_holding_what_is_no_knob_is_refused():
    with pytest.raises(KnobError, match="unknown knob 'agent'"):
        SPACE.held(["agent"], {})
    with pytest.raises(KnobError, match=r"'agents2\.share' cannot be held alone: hold 'agents'"):
        SPACE.held(["agents2.share"], {})
