"""The engineer that follows skills: which sign leads to which patch."""

from types import SimpleNamespace

import pytest
from lineages import child, lineage, patch, root

from coevolve.core.errors import UserError
from coevolve.domains.registry import get_domain
from coevolve.engineers.base import Refused, change_knobs
from coevolve.engineers.library import SkillLibrary
from coevolve.engineers.registry import make_engineer
from coevolve.engineers.rules import RulesEngineer
from coevolve.harness.patch import FACTORS, patched
from coevolve.harness.plan import make_plan
from coevolve.harness.skill import Trial
from coevolve.loop.propose import designed

LIBRARY = SkillLibrary()
OURS = ("lake", "math", "code", "swe")
SIGNS = [
    ("finer_reward", {"dead_groups": 0.6, "one_value_share": 0.8}),
    ("too_hard_frontier", {"dead_groups": 0.6, "train_valid_rate": 0.1}),
    ("too_easy_harder", {"dead_groups": 0.6, "train_valid_rate": 0.95}),
    ("dead_larger_groups", {"dead_groups": 0.6, "train_valid_rate": 0.5}),
    ("echo_trap_filter", {"turns_rising": 3}),
    ("echo_trap_filter", {"failed_longer": 2, "turns": 8}),
    ("collapse_temperature", {"diversity_change": -0.2, "logprob_change": 0.6}),
    ("collapse_entropy", {"exploration_collapse": 1}),
    ("hacked_simpler", {"hacked_reward": 0.2}),
    ("lazy_failures_cost", {"laziness": 1}),
    ("unlearned_slower", {"unlearned": 0.1}),
    ("edit_failures_colder", {"edit_failures": 0.3}),
    ("truncation_room", {"truncation": 0.3}),
    ("length_pays_loss", {"length_pays": 0.5}),
    ("abandonment_left_out", {"turns_few": -0.5}),
    ("invalid_earns_nothing", {"invalid_pays": 0.2}),
    ("drift_slower", {"failure_drift": 0.5, "score_change": -0.01}),
    ("nothing_moved_faster", {"failure_drift": 0.01, "score_change": 0.0, "drift": 0.001}),
    ("far_and_flat", {"drift": 0.05, "score_change": 0.01}),
]
# What only some domains have the component or the knob for.
SOME = [
    ("length_pays_drop", {"length_pays": 0.5}, ("lake", "math")),
    ("format_failures_cost", {"format_failures": 0.5}, ("code",)),
    ("echo_trap_turns", {"echo": 0.5}, ("swe",)),
    ("lazy_less_hinted", {"laziness": 1}, ("swe",)),
]


def proposed(seen, domain="lake", **fields):
    """Patches by the skill that they come from, in order."""
    known = lineage(seen, domain=get_domain(domain), **fields)
    return RulesEngineer(LIBRARY).propose(known, 0), known


@pytest.mark.parametrize("domain", OURS)
@pytest.mark.parametrize(("name", "seen"), SIGNS)
def test_a_sign_leads_to_its_rule_in_every_domain(domain, name, seen):
    said, known = proposed(seen, domain)
    assert name in [one.skill for one in said if LIBRARY.get(one.skill).trigger]
    for one in said:
        patched(known.parent.harness, one.patch)


@pytest.mark.parametrize(("name", "seen", "where"), SOME)
def test_a_rule_that_does_not_fit_a_domain_is_passed_over(name, seen, where):
    found = [d for d in OURS if name in [one.skill for one in proposed(seen, d)[0]]]
    assert tuple(found) == where


def test_history_is_closed_where_it_is_open():
    known = lineage(
        {"history_read": 0.3}, domain=get_domain("swe"),
        versions=[root(knobs={"history.share": 0.5})], reach=1.0,
    )  # fmt: skip
    first = RulesEngineer().propose(known, 0)[0]
    assert first.skill == "history_closed"
    assert first.patch.value["history.share"] == 0


def test_trends_are_followed_over_versions():
    a = root()
    b = child(1, a, patch(value=1.1), "kept")
    seen = {"mean_reward": {0: 0.4, 1: 0.6}, "valid_rate": {0: 0.5, 1: 0.5}}
    said, _ = proposed(seen, versions=[a, b], parent=b)
    assert said[0].skill == "hacked_simpler"
    assert said[0].patch.value == "accuracy"


def test_without_a_sign_there_is_a_local_search_of_many_factors():
    said, _ = proposed({})
    factors = [one.patch.factor for one in said]
    assert factors[0] == "knobs"
    assert len(set(factors)) >= 8
    assert all(LIBRARY.get(one.skill).trigger == "" for one in said)


def test_a_tree_never_runs_out_and_never_repeats_itself():
    versions = [root()]
    seen = set()
    for number in range(1, 41):
        known = lineage(
            {"dead_groups": 0.6, "train_valid_rate": 0.5}, versions=versions, parent=versions[0]
        )
        first = RulesEngineer(LIBRARY).propose(known, 3)[0]
        assert not first.failure
        version = child(number, versions[0], first.patch, "pruned")
        assert version.harness.digest() not in seen
        seen.add(version.harness.digest())
        versions.append(version)


def test_what_a_backtest_refused_is_not_suggested_again():
    first = proposed({})[0][0].patch
    harness = patched(root().harness, first)
    refused = Refused(patch=first, words="too little is left", harness=harness)
    said, _ = proposed({}, refused=(refused,))
    assert first.value not in [one.patch.value for one in said if one.patch.factor == first.factor]


def test_factors_that_may_not_change_are_left_alone():
    said, _ = proposed({"dead_groups": 0.6}, factors=("reward", "recipe.group"))
    assert {one.patch.factor for one in said} == {"reward", "recipe.group"}
    none, _ = proposed({}, factors=())
    assert [bool(one.failure) for one in none] == [True]


def test_layers_that_failed_lately_come_last():
    said, _ = proposed({}, switch=("optimiser", "sampling"), failures=5)
    late = [FACTORS[one.patch.factor][0] in ("optimiser", "sampling") for one in said]
    assert late == sorted(late)
    assert said[0].skill == "search_simpler", "after failures, rather take something away"
    assert said[1].skill == "search_knobs"


def test_after_four_failures_what_held_elsewhere_comes_first():
    library = SkillLibrary()
    held = Trial(run="other", domain="math", version=1, verdict="kept", gain=0.1)
    library.skills["search_colder"] = library.get("search_colder").tried(held)
    for failures, first in ((3, False), (4, True)):
        known = lineage({"dead_groups": 0.6, "train_valid_rate": 0.5}, failures=failures)
        said = RulesEngineer(library).propose(known, 0)
        assert (said[0].skill == "search_colder") is first


def test_what_a_negative_skill_warns_of_is_not_suggested():
    # Both rules want the temperature: one up, one down; the warning decides.
    seen = {"edit_failures": 0.4, "entropy": 0.01}
    said, _ = proposed(seen)
    values = [one.patch.value for one in said if one.patch.factor == "recipe.temperature"]
    assert values
    assert min(values) > 1


def test_what_failed_three_times_here_is_not_suggested_here():
    library = SkillLibrary()
    rule = library.get("truncation_room")
    for number in range(3):
        rule = rule.tried(Trial(run="r", domain="lake", version=number, verdict="reverted"))
    library.put(rule)
    known = lineage({"truncation": 0.3})
    factors = [one.patch.factor for one in RulesEngineer(library).propose(known, 0)]
    assert "recipe.max_tokens" not in factors
    elsewhere = RulesEngineer(library).propose(
        lineage({"truncation": 0.3}, domain=get_domain("math")), 0
    )
    assert "recipe.max_tokens" in [one.patch.factor for one in elsewhere]


# --- engineers of knobs where anything may change


def test_the_line_of_the_parent_is_what_an_engineer_of_knobs_sees():
    a = root()
    b = child(1, a, patch(value=1.1), "kept")
    knobs = patch("knobs", {"size3.hole_ratio": 0.3})
    c = child(2, b, knobs, "pruned")
    d = child(3, a, knobs, "kept")
    e = child(4, b, patch("recipe.group", 16), "reverted")
    view = lineage(versions=[a, b, c, d, e], parent=b)
    assert [(one.number, one.verdict) for one in view.history] == [
        (0, "kept"), (1, "kept"), (2, "reverted"),
    ]  # fmt: skip


def design(proposal, view, **plan):
    """What a run makes of a proposal."""
    run = SimpleNamespace(
        plan=make_plan({"factors": ["all"], **plan}, "test"),
        gauge=SimpleNamespace(domain=get_domain("lake")),
        lineage=SimpleNamespace(harness=lambda parent: view.parent.harness),
    )
    return designed(run, None, view, proposal, "somebody")


@pytest.mark.parametrize("name", ["frontier", "learnability", "random"])
def test_an_engineer_of_knobs_proposes_patches_like_any_other(name):
    view = lineage()
    (said,) = make_engineer(name).propose(view, 0)
    made = design(said, view)
    assert (made.patch.factor, made.patch.author) == ("knobs", "somebody")
    assert made.harness == patched(view.parent.harness, made.patch)
    assert made.asked == said.patch.value
    with pytest.raises(UserError, match="this plan only allows reward: name more in `factors`"):
        design(said, view, factors=["reward"])


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"agent2.share": 1}, "no such knob: 'agent2.share'; did you mean 'agents2.share'?"),
        ({"agents2.share": "nan"}, "agents2.share = 'nan': give a finite number"),
        ({"agents2.share": True}, "agents2.share = True: give a finite number"),
    ],
)
def test_a_slip_of_an_engineer_is_told_as_what_it_is(value, why):
    view = lineage()
    with pytest.raises(UserError) as refused:
        design(change_knobs(value, "so"), view)
    assert str(refused.value) == why


def test_what_changes_nothing_is_no_design():
    view = lineage()
    (said,) = make_engineer("fixed").propose(view, 0)
    assert said.patch is None
    assert said.words
    with pytest.raises(UserError, match="change nothing"):
        design(change_knobs(dict(view.incumbent), "the same"), view)
