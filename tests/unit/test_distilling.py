"""From judged versions to skills: what is learned, and that it follows from recorded facts."""

import pytest
from lineages import child, findings, lineage, patch, root

from coevolve.domains.lake.domain import LakeDomain
from coevolve.domains.registry import get_domain
from coevolve.engineers.distill import distil
from coevolve.engineers.fill import fill
from coevolve.engineers.library import SkillLibrary
from coevolve.engineers.situation import situation_of
from coevolve.evaluation.difference import Difference
from coevolve.harness.harness import Harness

CHANGE = Difference(mean=0.05, low=0.01, high=0.09, p=0.01, n=300)
LAKE = LakeDomain()


def judged(change, verdict="kept", readings=None, skills=None, number=1, parent=None, **fields):
    """What is distilled from a version with this patch: one skill, or nothing."""
    found = all_judged(change, verdict, readings, skills, number, parent, **fields)
    assert len(found) <= 1
    return found[0] if found else None


def all_judged(change, verdict="kept", readings=None, skills=None, number=1, parent=None, **fields):
    before = parent or root()
    return distil(
        skills or {},
        child(number, before, change, verdict),
        before,
        situation_of(findings(readings or {}), (before,), before.number),
        CHANGE,
        LAKE.space,
        **{"run": "one", "domain": "lake", "components": LAKE.components, "date": "2026-01-01",
           **fields},
    )  # fmt: skip


def test_a_kept_patch_becomes_a_skill_with_the_signs_of_its_parent():
    seen = {"dead_groups": 0.6, "duplicate_answers": 0.55, "truncation": 0.01}
    learned = judged(patch(value=1.3, author="gpt"), readings=seen)
    assert learned.trigger == "dead_groups > 0.5 and duplicate_answers > 0.5"
    assert learned.layer == "signal"
    assert learned.template.by == pytest.approx(1.3)
    assert (learned.domains, learned.learned, learned.held()) == (("lake",), True, 1)
    (trial,) = learned.evidence
    assert (trial.gain, trial.low, trial.high, trial.n) == (0.05, 0.01, 0.09, 300)
    assert learned.offered("lake")
    assert not learned.offered("math")


def test_without_an_alarm_the_largest_move_is_the_sign():
    a, b = root(), child(1, root(), patch(value=1.1), "kept")
    seen = {"answer_tokens": {0: 100.0, 1: 180.0}, "valid_rate": {0: 0.5, 1: 0.52}}
    version = child(2, b, patch("recipe.kl", 0.01), "kept")
    (learned,) = distil(
        {}, version, b, situation_of(findings(seen), (a, b), 1), CHANGE, LAKE.space,
        run="one", domain="lake", components=LAKE.components,
    )  # fmt: skip
    assert learned.trigger == "answer_tokens.change > 40"
    assert learned.template.kind == "set"
    assert judged(patch()).trigger == ""


def test_learned_knobs_are_gone_to_step_by_step():
    learned = judged(patch("knobs", {"size3.hole_ratio": 0.5}, author="gpt"))
    (found,) = fill(learned, lineage(versions=[root()]), 0)
    assert found.value["size3.hole_ratio"] == pytest.approx(0.2 + 0.15 * 0.5)


@pytest.mark.parametrize(
    ("harness", "change", "template"),
    [
        ({}, patch("recipe.group", 16), {"kind": "scale", "by": 2.0, "low": 2.0, "high": 64.0}),
        ({}, patch("recipe.loss", "gspo"), {"kind": "set", "value": "gspo"}),
        ({}, patch("filters", [{"kind": "truncation"}]),
         {"kind": "append", "filter": {"kind": "truncation"}}),
        ({"filters": [{"kind": "truncation"}]}, patch("filters", []),
         {"kind": "remove", "filters": ["truncation"]}),
        ({}, patch("reward", "reward + optimal"),
         {"kind": "rewrite", "text": "reward + optimal", "components": []}),
        ({"reward": "accuracy + length"}, patch("reward", "(accuracy + length) - truncated"),
         {"kind": "rewrite", "text": "{reward} - truncated", "components": []}),
        ({}, patch("knobs", {"size3.hole_ratio": 0.3}, author="frontier"),
         {"kind": "engineer", "name": "frontier"}),
        ({}, patch("knobs", {"size3.hole_ratio": 0.27}, author="gpt"),
         {"kind": "set", "value": {"size3.hole_ratio": 0.27}}),
    ],
)  # fmt: skip
def test_a_template_says_as_generally_as_it_can_what_was_done(harness, change, template):
    before = root(**Harness.model_validate(harness).model_dump())
    learned = judged(change, parent=before)
    assert learned.template.model_dump(mode="json") == template
    again = fill(learned, lineage(versions=[before]), 0)
    assert [one.factor for one in again] == [change.factor]
    if change.author != "frontier":
        made = child(1, before, again[0], "kept").harness
        assert LAKE.space.project(made.knobs) == LAKE.space.project(
            child(1, before, change, "kept").harness.knobs
        )
        assert made.model_copy(update={"knobs": {}}) == child(
            1, before, change, "kept"
        ).harness.model_copy(update={"knobs": {}})


def test_what_a_known_skill_says_is_its_evidence():
    shipped = SkillLibrary().skills
    seen = {"truncation": 0.3}
    found = judged(patch("recipe.max_tokens", 300), "pruned", seen, shipped)
    assert found.name == "truncation_room"
    assert found.failed("lake") == 1
    named = judged(patch("recipe.max_tokens", 300), "kept", {}, shipped, skill="finer_reward")
    assert named.name == "finer_reward"


def test_what_local_search_found_is_kept_with_its_signs():
    shipped = SkillLibrary().skills
    change, seen = patch("recipe.clip_low", 0.22), {"entropy": 0.01}
    search, new = all_judged(change, "kept", seen, shipped)
    assert search.name == "search_clip_low"
    assert (new.trigger, new.learned, new.held()) == ("entropy < 0.02", True, 1)
    assert new.evidence == search.evidence
    known = shipped | {search.name: search, new.name: new}
    again = all_judged(change, "kept", seen, known, number=2, skill="search_clip_low")
    assert [one.name for one in again] == [search.name, new.name]
    assert [one.held() for one in again] == [2, 2]
    (failed,) = all_judged(change, "pruned", seen, shipped)
    assert failed.name == "search_clip_low"
    (signless,) = all_judged(change, "kept", {}, shipped)
    assert signless.name == "search_clip_low"


def test_failures_turn_into_a_warning_and_hold_in_the_domain():
    skills = {}
    for number in (1, 2, 3):
        found = judged(patch(value=1.3), "reverted", {"entropy": 0.01}, skills, number)
        assert not found.offered("lake")
        skills[found.name] = found
    assert len(skills) == 1
    assert found.failed() == 3
    assert found.warns("lake")
    assert not found.warns("math")


def test_a_second_domain_shares_it_with_all():
    first = judged(patch(value=1.3), "kept", {"entropy": 0.01})
    both = judged(
        patch(value=1.25), "kept", {"entropy": 0.015}, {first.name: first}, run="two", domain="math"
    )
    assert both.name == first.name
    assert both.held_in == ("lake", "math")
    assert both.offered("code")
    patches = fill(both, lineage({"entropy": 0.01}, domain=get_domain("code")), 0)
    assert [one.value for one in patches] == [1.3]


def test_the_same_facts_give_the_same_skill_and_count_once():
    one, other = (judged(patch(value=1.3), "kept", {"entropy": 0.01}) for _ in range(2))
    assert one == other
    assert judged(patch(value=1.3), "kept", {"entropy": 0.01}, {one.name: one}) == one


def test_what_was_not_judged_or_has_no_patch_teaches_nothing():
    assert judged(patch(), None) is None
    assert judged(patch(), "root") is None
    before = root()
    merged = child(1, before, patch(), "kept").model_copy(update={"patch": None})
    situation = situation_of((), (before,), 0)
    assert (
        distil({}, merged, before, situation, CHANGE, LAKE.space, run="r", domain="lake",
               components={}) == []
    )  # fmt: skip
