"""Comparisons: what can be written, what is refused, and what follows for each arm."""

from pathlib import Path
from typing import Any

import pytest
from arms import comparison

from coevolve.cli.comparison_table import FILE, begin
from coevolve.cluster.compare import begun, on_disk
from coevolve.core.errors import UserError
from coevolve.dashboard.web.pages.compare import compared
from coevolve.engineers.context import VARIANTS
from coevolve.harness.budget import Spent
from coevolve.harness.comparison import (
    SHIPPED,
    expected,
    load_comparison,
    make_comparison,
    unpaid,
)
from coevolve.harness.plan import make_plan
from coevolve.loop.create import check
from coevolve.loop.train import equal
from coevolve.policies.models import check_trainable
from coevolve.store.jobs import give


def test_arms_change_what_they_name_and_nothing_else() -> None:
    one = comparison(
        arms={"fixed": {"engineers": ["fixed"]}, "open": {"gate": {"on": False}}}, seeds=[3, 5]
    )
    assert one.seeds == (3, 5)
    assert one.reference == "fixed"
    fixed, opened = one.plan_of("fixed", 5), one.plan_of("open", 5)
    assert (fixed.engineers, opened.engineers) == (("fixed",), ("frontier",))
    assert (fixed.gate.on, opened.gate.on, opened.gate.margin) == (True, False, fixed.gate.margin)
    assert fixed.seed == opened.seed == 5
    assert fixed.target == opened.target
    assert [job.name for job in one.jobs()] == [
        "untrained/seed-3", "fixed/seed-3", "open/seed-3",
        "untrained/seed-5", "fixed/seed-5", "open/seed-5",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seeds": 0}, "seeds"),
        ({"seeds": [1, 1]}, "listed twice"),
        ({"seeds": "many"}, "seeds"),
        ({"arms": {}}, "arms"),
        ({"arms": {"a/b": {}}}, "a/b"),
        ({"arms": {"untrained": {}}}, "untrained"),
        ({"arms": {"a": {"seed": 3}}}, "arm a sets seed"),
        ({"arms": {"a": {}, "b": {"target": {"dev": 99}}}}, "arm b sets target"),
        ({"arms": {"a": {"enginers": ["fixed"]}}}, "enginers"),
        ({"arms": {"a": {}, "b": {"versions": 3}}}, "arm b trains on 192 rollouts and a on 128"),
        ({"plan": {"versions": 0}}, "versions"),
        ({"plan": {"budget": {"rollouts": 9}}}, "arm fixed has budget = {'rollouts': 9}"),
        ({"arms": {"a": {}, "b": {"budget": {"seconds": 1}}}}, "arm b has budget"),
        ({"tasks": 1}, "tasks"),
        ({"equal": "tokens"}, "arm fixed has recipe.tokens = 0"),
        (
            {
                "equal": "tokens",
                "arms": {"a": {"recipe": {"tokens": 9}}, "b": {"recipe": {"tokens": 8}}},
            },
            "arm b trains on 16 tokens and a on 18",
        ),
        ({"arms": {"a": {"recipe": {"tokens": 9}}}}, 'set equal = "tokens"'),
        ({"sedes": 1}, "sedes"),
        ({"arms": {"a": {}, "b": {"small": {"steps": 9}}}}, "arm b sets small"),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match="test") as error:
        comparison(**changes)
    assert said in str(error.value)


def test_equal_rollouts_in_another_shape_may_be_compared() -> None:
    found = comparison(arms={"a": {}, "b": {"recipe": {"steps": 4, "tasks": 2}}})
    assert found.plan_of("b", 0).recipe.steps == 4


def test_twins_and_controls_are_trained_too() -> None:
    tree = {"start_from": "base", "accept": "better", "versions": 3}
    with pytest.raises(UserError, match="arm tree trains on 320 rollouts and a on 192"):
        comparison(arms={"a": {"versions": 3}, "tree": tree})
    control = {"control": True, "versions": 3, "width": 1}
    found = comparison(arms={"a": {"versions": 5}, "tree": tree, "control": control})
    assert [job.arm for job in found.jobs()] == ["untrained", "a", "tree", "control"]


def test_arms_may_be_equal_by_tokens() -> None:
    arms = {"a": {"recipe": {"tokens": 900}}, "b": {"recipe": {"tokens": 900, "steps": 50}}}
    found = comparison(equal="tokens", arms=arms)
    assert found.plan_of("b", 0).recipe.tokens == 900


def test_probes_are_paid_for_by_training() -> None:
    assert comparison().plan_of("frontier", 0).pay_probes
    plan = make_plan({"recipe": {"steps": 8, "tasks": 4, "group": 4}}, "test")
    assert equal(plan, plan.recipe).steps == 8
    assert equal(plan, plan.recipe, Spent(rollouts=33)).steps == 5
    assert equal(plan, plan.recipe, Spent(rollouts=10_000)).steps == 1
    halved = plan.recipe.model_copy(update={"group": 8})
    assert equal(plan, halved, Spent(rollouts=33)).steps == 2
    limited = make_plan({"recipe": {"tokens": 1_000}}, "test")
    paid = equal(limited, limited.recipe, Spent(rollouts=33, tokens=400))
    assert (paid.tokens, paid.steps) == (600, limited.recipe.steps)


def test_probes_that_training_cannot_pay_for_are_told_before() -> None:
    short = {**comparison().plan, "recipe": {"steps": 1, "tasks": 2, "group": 2}}
    words = unpaid(comparison(plan={**short, "backtest": {"tasks": 64, "samples": 8}}))
    assert words.startswith("no fair comparison: frontier may draw more to try changes")
    assert unpaid(comparison(plan={**short, "recipe": {"steps": 100, "tasks": 8}})) == ""


def test_expected_rollouts() -> None:
    untrained, fixed, other, *_ = comparison().jobs()
    assert expected(untrained) == (0, 0, 40)
    # two versions of 2 x 4 x 8; gate 3 times, dev twice, fresh tasks; nobody designs
    assert expected(fixed) == (128, 0, 3 * 40 + 2 * 24 + 40)
    # knobs before and after, and what is explored
    assert expected(other).probe == (2 * 8 + 16) * 2
    target = {"dev": 24, "gate": 40, "samples": 3}
    twice = comparison(plan={"versions": 2, "target": target}).jobs()
    assert [expected(job).measure for job in twice[:2]] == [3 * 40, 3 * (3 * 40 + 2 * 24 + 40)]


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_shipped_comparisons_are_valid(name: str) -> None:
    found = load_comparison(name, {})
    assert unpaid(found) == ""
    assert found.name == name
    assert found.reference == "fixed"
    for job in found.jobs():
        assert job.plan.policy == {
            "language": "smollm2",
            "trees-math": "small",
            "trees-code": "small",
        }.get(name, "pocket")
        check(job.plan, lambda *_: None)


def test_the_paper_is_among_them() -> None:
    main = load_comparison("main", {})
    assert {
        "fixed", "uniform", "learnability", "bandit", "ceiling", "frontier", "policy", "base",
    } <= set(main.arms)  # fmt: skip
    context = load_comparison("context", {})
    assert {arm: context.plan_of(arm, 0).context for arm in VARIANTS} == VARIANTS


def test_the_command_line_changes_and_selects(tmp_path: Path) -> None:
    changes = {"seeds": [7], "plan": {"recipe": {"steps": "2"}, "versions": 1}}
    found = load_comparison("main", changes, ["frontier", "fixed"])
    assert list(found.arms) == ["fixed", "frontier"]
    plan = found.plan_of("frontier", 7)
    assert (plan.versions, plan.recipe.steps, plan.recipe.tasks) == (1, 2, 16)
    with pytest.raises(UserError, match="did you mean 'frontier'"):
        load_comparison("main", {}, ["frontir"])
    with pytest.raises(UserError, match="did you mean 'main'"):
        load_comparison("mian", {})
    with pytest.raises(UserError, match="cannot read"):
        load_comparison(str(tmp_path / "none.toml"), {})
    (tmp_path / "bad.toml").write_text("name = ")
    with pytest.raises(UserError, match="is not TOML"):
        load_comparison(str(tmp_path / "bad.toml"), {})


def test_names_in_an_arm_are_checked_before_anything_runs() -> None:
    wrong = make_comparison(
        {"name": "x", "seeds": 1, "arms": {"a": {"context": ["F", "Q"]}}}, "test"
    )
    with pytest.raises(UserError, match="unknown context module 'Q'"):
        check(wrong.plan_of("a", 0), check_trainable)


def test_models_are_found_from_anywhere_and_noticed_if_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def quiet(line: str, seconds: float | None) -> None:
        pass

    monkeypatch.chdir(tmp_path)
    for name in ("pocket", "mine", "theirs", "frontier"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    shipped = comparison(plan={"policy": "pocket"}, arms={"a": {}})
    assert {job.plan.policy for job in on_disk(shipped.jobs(), tmp_path, quiet)} == {"pocket"}
    own = comparison(plan={"policy": "mine"}, arms={"a": {"engineers": ["./theirs", "frontier"]}})
    before = on_disk(own.jobs(), tmp_path, quiet)
    assert {job.plan.policy for job in before} == {str(tmp_path / "mine")}
    assert before[1].plan.engineers == (str(tmp_path / "theirs"), "frontier")
    folder = tmp_path / "out"
    give(folder, before[1])
    begun(folder, before[1])
    (tmp_path / "mine" / "model.safetensors").write_bytes(b"trained again")
    with pytest.raises(UserError, match="holds another arm: weights"):
        begun(folder, on_disk(own.jobs(), tmp_path, quiet)[1])


def test_whoever_looks_meanwhile_knows_what_is_compared(tmp_path: Path) -> None:
    one = comparison(arms={"fixed": {"engineers": ["fixed"]}, "a": {"engineers": ["bandit"]}})
    begin(one, tmp_path, "coevolve compare test")
    assert compared("test", tmp_path)["reference"] == "fixed"
    written = (tmp_path / FILE).read_bytes()
    begin(one, tmp_path, "coevolve compare another")
    assert (tmp_path / FILE).read_bytes() == written
