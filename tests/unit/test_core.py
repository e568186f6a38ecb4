"""Seeds, splits and names."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.cli.new_domain import new_domain
from coevolve.core.errors import SplitError, UserError
from coevolve.core.names import lookup
from coevolve.core.rollout import Message
from coevolve.core.seeds import derive, derive_all
from coevolve.core.splits import SHARES, Split, check_split, split_of
from coevolve.domains.registry import get_domain

names = st.lists(st.one_of(st.text(max_size=4), st.integers()), max_size=4)


def test_derive_is_pinned():
    assert derive(0) == 6148773199958884930
    assert derive(7, "lake", "train", 3) == derive(7, "lake", "train", 3)


@given(st.integers(), names, st.integers(), names)
def test_derive_tells_all_names_apart(seed, ours, other, theirs):
    same = (seed, ours) == (other, theirs) and list(map(type, ours)) == list(map(type, theirs))
    assert (derive(seed, *ours) == derive(other, *theirs)) == same


@given(st.integers(), names)
def test_derive_gives_seeds_that_libraries_take(seed, parts):
    assert 0 <= derive(seed, *parts) < 2**63


def test_splits_have_their_shares():
    counts = dict.fromkeys(Split, 0)
    for fingerprint in range(10_000):
        counts[split_of(fingerprint)] += 1
    assert counts == {split: 100 * share for split, share in SHARES.items()}


def test_a_task_of_another_split_is_refused():
    fingerprint = next(n for n in range(100) if split_of(n) is Split.GATE)
    check_split(fingerprint, Split.GATE, "x")
    with pytest.raises(SplitError, match=r"belongs to the split 'gate'.*cannot be used in 'train'"):
        check_split(fingerprint, Split.TRAIN, "x")


def test_unknown_names_get_the_nearest_match_and_the_list():
    with pytest.raises(UserError, match=r"unknown domain 'lak'; did you mean 'lake'\? Known: lake"):
        lookup("domain", "lak", {"lake": 1, "math": 2})
    with pytest.raises(UserError, match=r"unknown domain 'zzz'\. Known: lake, math"):
        lookup("domain", "zzz", {"lake": 1, "math": 2})
    with pytest.raises(UserError, match=r"Known: .*lake.*reasoning\.NAME"):
        get_domain("zzz")
    for name in ("openenv", "openenv:"):
        with pytest.raises(UserError, match=r"is many domains, .* such as openenv:http://"):
            get_domain(name)


def test_seeds_that_begin_alike_are_those_derived_one_by_one():
    ends = [(row, turn) for row in (0, 7, 1_000) for turn in ("a", 2)] + [()]
    assert derive_all(3, "rollout", 5, ends=ends) == [derive(3, "rollout", 5, *end) for end in ends]


def test_a_trusted_record_is_the_one_that_was_checked():
    checked = Message(role="user", content="7")
    trusted = Message.trusted(role="user", content="7")
    assert (trusted, hash(trusted)) == (checked, hash(checked))
    assert trusted.model_dump_json() == checked.model_dump_json()
    assert trusted.model_copy(update={"content": "8"}) == Message(role="user", content="8")
    assert pickle.loads(pickle.dumps(trusted)) == checked


@pytest.mark.parametrize("name", ["class", "None"])
def test_a_word_of_python_names_no_new_domain(name):
    with pytest.raises(UserError, match=f"it is a word of Python; .*such as {name.lower()}_1"):
        new_domain(name)
