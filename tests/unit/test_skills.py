"""Skills: triggers, templates, the record they carry, and the library they are kept in."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lineages import SUITE, child, findings, patch, root

from coevolve.core.errors import UserError
from coevolve.engineers.library import BUILT_IN, SkillLibrary, as_toml, read_file, read_folder
from coevolve.engineers.situation import Situation, situation_of
from coevolve.harness.harness import Harness
from coevolve.harness.patch import FACTORS
from coevolve.harness.skill import Skill, Trial
from coevolve.harness.template import (
    Add,
    Append,
    Drop,
    Put,
    Remove,
    Rewrite,
    Scale,
    moved,
    values_of,
    without,
)
from coevolve.harness.trigger import trigger

COMPONENTS = {"tests": "share that passes", "solved": "all pass"}


def skill(name="warmer", **fields):
    given_fields = {
        "summary": "a higher temperature", "trigger": "entropy < 0.1",
        "factor": "recipe.temperature", "template": Scale(by=1.2), "hypothesis": "from {old}",
    }  # fmt: skip
    return Skill(**{"name": name, **given_fields, **fields})


def trial(number, verdict="kept", domain="lake", run="one"):
    return Trial(run=run, domain=domain, version=number, verdict=verdict, date="2026-01-01")


# --- triggers


@pytest.mark.parametrize(
    ("text", "known", "holds"),
    [
        ("a > 0.3 and b > 0.5", {"a": 0.4, "b": 0.6}, True),
        ("a > 0.3 and b > 0.5", {"a": 0.4}, False),
        ("a > 0.3 or b > 0.5", {"b": 0.6}, True),
        ("a > 0.3 or b > 0.5", {}, False),
        ("a <= 0", {}, False),
        ("a == 0", {}, False),
        ("a - b > 0.1", {"a": 1.0, "b": 0.5}, True),
        ("a - b < 0.1", {"a": 1.0}, False),
        ("turns.rises >= 3 or x.change < -0.1", {"turns.rises": 3.0}, True),
        ("turns.rises >= 3 or x.change < -0.1", {"x.change": -0.2}, True),
        ("turns.rises >= 3", {"turns": 9.0}, False),
        ("a > 0.5 * recipe.max_tokens", {"a": 200.0, "recipe.max_tokens": 256.0}, True),
        ("a > 0.5 * recipe.max_tokens", {"a": 100.0, "recipe.max_tokens": 256.0}, False),
        ("", {}, True),
    ],
)
def test_a_trigger_holds_by_what_is_known(text, known, holds):
    assert trigger(text).holds(known) is holds


@pytest.mark.parametrize(
    "text",
    [
        "a", "not (a > 1)", "a != 1", "(a > 1) + 1", "max(a, 1) > 0", "1 / a < 1",
        "(a > 1) < 1", "a.size > 1", "recipe.magic > 1",
        "recipe.loss > 1", "open('x') > 1", "a > 1 and b", "a <", "x" * 600,
    ],
)  # fmt: skip
def test_what_could_hold_out_of_ignorance_is_refused(text):
    with pytest.raises(UserError):
        trigger(text)


NAMES = st.sampled_from(["a", "b.change", "c"])
PARTS = st.builds(
    lambda name, sign, number: f"{name} {sign} {number:.3f}",
    NAMES, st.sampled_from(["<", "<=", ">", ">=", "=="]), st.floats(-9, 9),
)  # fmt: skip


@given(st.lists(st.tuples(PARTS, st.sampled_from(["and", "or"])), min_size=1, max_size=6))
def test_nothing_holds_where_nothing_is_known(parts):
    text = " ".join(f"{part} {join}" for part, join in parts).rsplit(" ", 1)[0]
    assert not trigger(text).holds({})


def test_trends_follow_the_line_of_the_version_and_need_enough_rollouts():
    a = root()
    b = child(1, a, patch(value=1.1), "kept")
    c = child(2, a, patch(value=1.3), "pruned")
    d = child(3, b, patch(value=1.4), "kept")
    readings = {"turns": {0: 5.0, 1: 6.0, 2: 99.0, 3: 8.0}, "entropy": {0: 0.5, 1: 0.7, 3: 0.05}}
    found = situation_of(findings(readings), (a, b, c, d), 3)
    assert found.values.pop("recipe.temperature") == 1.4
    moved_values = {k: v for k, v in found.values.items() if not k.startswith("recipe.")}
    assert moved_values == pytest.approx({
        "turns": 8.0, "turns.change": 2.0, "turns.rises": 2.0, "turns.falls": 0.0,
        "entropy": 0.05, "entropy.change": -0.65, "entropy.rises": 0.0, "entropy.falls": 1.0,
    })  # fmt: skip
    assert [alarm.diagnostic for alarm in found.alarms] == ["entropy"]
    few = situation_of(findings(readings, n=3), (a, b, c, d), 3)
    assert all(name.startswith("recipe.") for name in few.values)


# --- templates


@pytest.mark.parametrize(
    ("template", "factor", "harness", "values"),
    [
        (Scale(by=2), "recipe.learning_rate", {}, [2e-5]),
        (Scale(by=2, high=12), "recipe.group", {}, [12]),
        (Scale(by=2, high=8), "recipe.group", {}, []),
        (Scale(by=0.5, low=300), "recipe.max_tokens", {}, []),
        (Add(by=0.01), "recipe.kl", {}, [0.01]),
        (Put(value="gspo"), "recipe.loss", {}, ["gspo"]),
        (Put(value="dapo"), "recipe.loss", {}, []),
        (Append(filter={"kind": "truncation"}), "filters", {}, [[{"kind": "truncation"}]]),
        (Append(filter={"kind": "truncation"}), "filters", {"filters": [{"kind": "truncation"}]},
         []),
        (Append(filter={"kind": "echo", "most_turns": 9}), "filters",
         {"filters": [{"kind": "echo", "most_turns": 50}, {"kind": "truncation"}]},
         [[{"kind": "truncation"}, {"kind": "echo", "most_turns": 9}]]),
        (Remove(), "filters", {"filters": [{"kind": "truncation"}]}, [[]]),
        (Remove(filters=("echo",)), "filters", {"filters": [{"kind": "truncation"}]}, []),
        (Rewrite(text="{reward} + 0.3 * {component}"), "reward", {},
         ["reward + 0.3 * tests", "reward + 0.3 * solved"]),
        (Rewrite(text="{component}", components=("accuracy", "solved")), "reward", {}, ["solved"]),
        (Rewrite(text="{component}", components=("accuracy",)), "reward", {}, []),
        (Rewrite(text="{reward} + 0.3 * {component}"), "reward", {"reward": "reward + tests"},
         ["(reward + tests) + 0.3 * solved"]),
        (Drop(components=("tests", "length")), "reward", {}, ["solved"]),
    ],
)  # fmt: skip
def test_new_values_follow_from_old_ones(template, factor, harness, values):
    made = values_of(template, factor, Harness.model_validate(harness), COMPONENTS)
    assert made == (pytest.approx(values) if factor == "recipe.learning_rate" else values)


@pytest.mark.parametrize(
    ("reward", "left"),
    [
        ("solved + 0.2 * tests", "solved"),
        ("solved - (tests - tokens / 100)", "solved + tokens / 100"),
        ("-solved - tests", "- solved"),
        ("tests", None),
        ("solved", None),
        ("tests * solved", None),
    ],
)
def test_a_component_is_dropped_from_a_sum(reward, left):
    assert without(reward, "tests", COMPONENTS) == left


def test_what_is_beyond_a_bound_is_not_driven_back():
    assert moved(Scale(by=2, high=1e-3), 5e-3) == 5e-3
    assert moved(Scale(by=0.5, low=1e-3), 1e-4) == 1e-4


# --- the record


def test_a_learned_skill_reaches_other_domains_after_it_held_in_two():
    fresh = skill(learned=True, domains=("lake",))
    assert not fresh.offered("lake"), "it never held"
    once = fresh.tried(trial(1))
    assert (once.offered("lake"), once.offered("math"), once.offered("code")) == (
        True,
        False,
        False,
    )
    again = once.tried(trial(2)).tried(trial(3))
    assert not again.offered("math"), "three times in one domain is one domain"
    both = again.tried(trial(1, domain="code", run="two"))
    assert both.offered("math")
    assert both.held_in == ("code", "lake")


def test_failing_again_and_again_turns_a_skill_against_itself_there_only():
    failing = skill().tried(trial(1, "pruned")).tried(trial(2, "reverted"))
    assert failing.offered("lake")
    failing = failing.tried(trial(3, "pruned"))
    assert not failing.offered("lake")
    assert failing.warns("lake")
    assert failing.offered("math")
    assert not failing.tried(trial(4, "kept")).tried(trial(5, "kept")).warns("lake")


def test_what_was_never_judged_is_no_failure_and_trials_count_once():
    open_ones = skill()
    for number in range(5):
        open_ones = open_ones.tried(trial(number, "root"))
    assert (open_ones.failed(), open_ones.warns("lake")) == (0, False)
    judged = open_ones.tried(trial(0, "pruned")).tried(trial(0, "kept"))
    assert (judged.held(), judged.failed(), len(judged.evidence)) == (1, 0, 5)


def test_better_records_come_first_and_failures_last():
    library = SkillLibrary(built_in=False)
    library.put(skill("fresh"))
    library.put(skill("held").tried(trial(1)).tried(trial(2)))
    library.put(skill("mixed").tried(trial(1)).tried(trial(2, "pruned")))
    library.put(skill("failed").tried(trial(1, "pruned")))
    library.put(skill("search", trigger=""))
    library.put(skill("warning", negative=True))
    library.put(skill("silent", trigger="entropy > 0.1"))
    found = library.matching("lake", Situation({"entropy": 0.01}))
    assert [one.name for one in found] == ["held", "mixed", "fresh", "failed", "search"]
    assert [one.name for one in library.warning("lake", Situation({"entropy": 0.01}))] == [
        "warning"
    ]


def test_critical_signs_come_first_then_the_signal_then_the_rank():
    library = SkillLibrary(built_in=False)
    for name, layer, rank, sign in (
        ("a", "behaviour", 1, "turns > 1"), ("b", "signal", 9, "turns > 1"),
        ("c", "signal", 5, "turns > 1"), ("d", "score", 9, "entropy < 0.1"),
    ):  # fmt: skip
        library.put(skill(name, layer=layer, rank=rank, trigger=sign))
    found = situation_of(findings({"turns": 3.0, "entropy": 0.01}), (root(),), 0)
    assert [one.name for one in library.matching("lake", found)] == ["d", "c", "b", "a"]


# --- files


def test_a_skill_reads_back_as_it_was_written(tmp_path):
    library = SkillLibrary(tmp_path / "skills")
    kept = library.put(skill().tried(trial(1)).tried(trial(2, "pruned", domain="math")))
    assert SkillLibrary(tmp_path / "skills").get("warmer") == kept
    for one in read_folder(BUILT_IN).values():
        (tmp_path / "x.toml").write_bytes(as_toml([one]))
        assert read_file(tmp_path / "x.toml") == {one.name: one}


def test_a_skill_from_a_file_of_several_goes_into_its_own(tmp_path):
    (tmp_path / "mine.toml").write_bytes(as_toml([skill("a"), skill("b")]))
    SkillLibrary(tmp_path).put(skill("a").tried(trial(1)))
    again = SkillLibrary(tmp_path)
    assert (again.get("a").held(), again.get("b").held()) == (1, 0)
    (tmp_path / "yours.toml").write_bytes(as_toml([skill("b")]))
    with pytest.raises(UserError, match="rename one"):
        SkillLibrary(tmp_path)


def test_a_copy_is_not_disturbed_and_gives_back_what_it_learned(tmp_path):
    shared = SkillLibrary(tmp_path / "shared")
    shared.put(skill().tried(trial(1)))
    own = shared.copied(tmp_path / "own")
    assert own.skills == shared.skills
    own.in_memory().put(skill().tried(trial(7)))
    assert SkillLibrary(tmp_path / "own").skills == shared.skills
    shared.absorb(skill().tried(trial(9, run="other")))
    learned = own.put(own.get("warmer").tried(trial(2)))
    for _ in range(2):
        shared.absorb(learned)
    keys = [one.key for one in SkillLibrary(tmp_path / "shared").get("warmer").evidence]
    assert sorted(keys) == [("one", "lake", 1), ("one", "lake", 2), ("other", "lake", 9)]
    assert [one.key for one in SkillLibrary(tmp_path / "own").get("warmer").evidence] == [
        ("one", "lake", 1), ("one", "lake", 2),
    ]  # fmt: skip


def absorb_some(folder, run):
    for number in range(8):
        SkillLibrary(folder, built_in=False).absorb(skill().tried(trial(number, run=run)))


def test_several_runs_at_once_lose_no_trial(tmp_path):
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda n: absorb_some(tmp_path, f"run-{n}"), range(3)))
    assert len(SkillLibrary(tmp_path, built_in=False).get("warmer").evidence) == 24


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = 1", "begin with"),
        ("[a", "is not TOML"),
        ("[a]\nsummary = 'x'", "factor"),
        ("[a]\nfactor='recipe.steps'\nsummary='x'\nhypothesis='y'\n"
         "template={kind='scale', by=2}", "unknown factor 'recipe.steps'"),
        ("[a]\nfactor='reward'\nsummary='x'\nhypothesis='y'\ntemplate={kind='scale', by=2}",
         "rewrite, drop, set"),
        ("[a]\nfactor='reward'\nsummary='x'\nhypothesis='y'\n"
         "template={kind='rewrite', text='import os'}", "not an expression"),
        ("[a]\nfactor='knobs'\nsummary='x'\nhypothesis='y'\n"
         "template={kind='engineer', name='fronteer'}", "did you mean 'frontier'"),
        ("[a]\nfactor='recipe.group'\nsummary='x'\nhypothesis='y'\ntrigger='dead'\n"
         "template={kind='scale', by=2}", "not a comparison"),
        ("[Bad-Name]\nfactor='recipe.group'\nsummary='x'\nhypothesis='y'\n"
         "template={kind='scale', by=2}", "name"),
    ],
)  # fmt: skip
def test_a_bad_file_is_named_with_what_is_wrong(tmp_path, text, said):
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(UserError, match=r"bad\.toml") as error:
        SkillLibrary(tmp_path)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


# --- what comes with the program


@pytest.mark.parametrize("one", read_folder(BUILT_IN).values(), ids=lambda one: one.name)
def test_built_in_skills_speak_of_what_there_is(one):
    assert trigger(one.trigger).diagnostics <= SUITE.keys()
    assert one.metric in {"valid", "optimal", "reward", *SUITE}
    assert one.provenance
    assert not one.learned
    assert not one.evidence


def test_every_factor_and_every_published_rule_has_a_skill():
    shipped = read_folder(BUILT_IN).values()
    assert {one.factor for one in shipped} == FACTORS.keys()
    for number in range(1, 7):
        assert [one for one in shipped if f"published rule {number}" in one.provenance], number
