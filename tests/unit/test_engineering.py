"""Engineering as a domain: the simulated trainee, the oracle, the table, and the verdicts."""

import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.core.errors import UserError
from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.domains.lake.knobs import SPACE as LAKE
from coevolve.domains.registry import get_domain
from coevolve.engineering import lessons, table
from coevolve.engineering.domain import view_of
from coevolve.engineering.engineer import TaughtEngineer
from coevolve.engineering.lessons import with_lessons
from coevolve.engineering.oracle import best_edits
from coevolve.engineering.trainee import Trainee, learned, signal, tried
from coevolve.engineers.base import Edit
from coevolve.engineers.reach import apply, edited, with_edits
from coevolve.engines.trl.engine import TrlEngine
from coevolve.evaluation.attempts import attempts
from coevolve.harness.harness import Harness
from coevolve.harness.plan import make_plan
from coevolve.loop.train import Job, train_stage
from coevolve.policies.base import Completion, Sampling
from coevolve.policies.local import LocalPolicy
from coevolve.store.cells import merged
from coevolve.store.paths import Paths

DOMAIN = get_domain("engineering")


@pytest.fixture(scope="module")
def tasks():
    return list(DOMAIN.generate(DOMAIN.space.defaults(), 24, 3, Split.DEV))


def trainee(skill=0.0, spread=1.0, **harder):
    return Trainee(
        skill=skill,
        harder={f"{name}.data_ratio": value for name, value in harder.items()},
        slopes={"hole_ratio": 3.0, "wait_ratio": 1.0},
        spread=spread,
    )


# --- the trainee


def test_attempts_are_as_the_model_says():
    """Rates and variances of many simulated groups agree with their closed forms."""
    someone = trainee(0.4, 1.5, size3=-1.0, size10=1.5)
    knobs = LAKE.parse({"size3.data_ratio": 0.5, "size10.data_ratio": 0.5})
    cells = tried(someone, knobs, 40_000, 8, np.random.default_rng(0))
    assert {cell.labels["size"] for cell in cells} == {3, 10}
    (whole,) = merged(cells, [])
    # The variance within a finite group is smaller by one part in the size of the group.
    assert whole.spread / whole.groups * 8 / 7 == pytest.approx(signal(someone, knobs), rel=0.02)
    easy, hard = (merged([c for c in cells if c.labels["size"] == s], [])[0] for s in (3, 10))
    assert easy.rate > 0.6 > 0.4 > hard.rate


def test_signal_is_highest_where_half_succeeds():
    knobs = LAKE.defaults()
    values = [signal(trainee(skill, 0.3), knobs) for skill in (-4, -2, 0, 2, 4)]
    assert values == sorted(values[:3]) + sorted(values[3:], reverse=True)
    assert values[2] == max(values) < 0.25


def test_training_makes_better_and_most_where_there_was_signal():
    before = trainee(0.0, 0.5, size3=0.0, size9=6.0)
    knobs = LAKE.parse({"size3.data_ratio": 0.5, "size9.data_ratio": 0.5})
    after = learned(before, knobs, 2.0)
    assert after.skill > before.skill
    gains = {name: before.harder[name] - after.harder[name] for name in before.harder}
    assert gains["size3.data_ratio"] > 5 * gains["size9.data_ratio"] > 0


# --- the oracle


def test_the_oracle_makes_hard_tasks_easier_and_easy_ones_harder():
    someone = trainee(0.0, 0.5, size3=-4.0, size10=4.0)
    knobs = LAKE.parse({"size3.data_ratio": 0.5, "size10.data_ratio": 0.5})
    actions = {edit.knob: edit.action for edit in best_edits(someone, knobs, 0.15)}
    assert actions["size3.hole_ratio"] == actions["size3.wait_ratio"] == "raise"
    assert actions["size10.hole_ratio"] == actions["size10.wait_ratio"] == "lower"


def test_no_single_step_improves_on_the_oracle_much(tasks):
    """One more step, or one less, never brings over a tenth of what the oracle gained."""
    rng = random.Random(0)
    for task in tasks[:6]:
        view, truth = view_of(task), Trainee.model_validate(task.data["trainee"])
        edits = [Edit(knob=knob, action=action) for knob, action in task.data["edits"]]
        names = [knob.name for row in table.rows(view.incumbent) for knob in row.knobs]
        for name in rng.sample(names, min(6, len(names))):
            others = [edit for edit in edits if edit.knob != name]
            for action in ("raise", "lower", None):
                tried_out = [*others, Edit(knob=name, action=action)] if action else others
                reached = signal(truth, with_edits(tried_out, view.incumbent, task.data["reach"]))
                gain = task.data["best"] - task.data["signal"]
                assert reached <= task.data["best"] + 0.1 * gain


# --- answers


def test_tables_are_read_back_and_short(tasks):
    for task in tasks:
        view = view_of(task)
        edits = tuple(Edit(knob=knob, action=action) for knob, action in task.data["edits"])
        text = table.write(view.incumbent, edits)
        assert set(table.read(view.incumbent, text)) == set(edits)
        prompt = DOMAIN.prompt(task, "table")[0].content
        assert len(prompt.split()) + len(text.split()) < 192
        assert prompt.split()[-1] == "edits"


def test_a_table_shows_the_evidence():
    data = lessons.draw_lesson(DOMAIN.space.defaults(), LAKE, "lake", 5, Split.TRAIN)
    task = next(DOMAIN.generate(DOMAIN.space.defaults(), 1, 5, Split.TRAIN))
    assert data["trainee"] != task.data["trainee"]  # seeds are derived, not passed on
    view = view_of(task)
    row = DOMAIN.prompt(task, "table")[0].content.split(" / ")[0].split()
    first = table.rows(view.incumbent)[0]
    label, value = first.knobs[0].label
    own = [cell for cell in view.last.train if cell.labels[label] == value]
    n, valid = sum(cell.n for cell in own), sum(cell.valid for cell in own)
    assert row[0] == first.name
    assert int(row[2]) == min(9, int(10 * valid / n))
    assert int(row[3]) == min(9, int(np.log2(n + 1)))


FEW = {"size4.data_ratio": 0.5, "size6.data_ratio": 0.5, "agents3.share": 0.6, "agents5.share": 0.4}


def test_shares_that_are_not_in_use_keep_their_rows_and_are_left_alone():
    knobs = LAKE.parse(FEW)
    found = table.rows(knobs)
    sizes, agents = [f"size{size}" for size in range(3, 11)], [f"agents{n}" for n in (2, 3, 4, 5)]
    assert [row.name for row in found] == [*sizes, *agents]
    assert {row.name for row in found if row.used} == {"size4", "size6", "agents3", "agents5"}
    raised = " / ".join(" ".join((row.name, *("up" for _ in row.knobs))) for row in found)
    edits = table.read(knobs, raised)
    assert {edit.knob.split(".")[0] for edit in edits} == {"size4", "size6", "agents3", "agents5"}
    assert "size3 same same same / size4 up up up" in table.write(knobs, edits)
    opened = Edit(knob="size3.data_ratio", action="raise")
    assert table.write(knobs, (opened,)) == table.write(knobs, ())


def test_some_lessons_use_only_some_shares():
    def used(fewer):
        made = DOMAIN.generate(DOMAIN.space.parse({"fewer": fewer}), 12, 4, Split.TRAIN)
        return [sum(row.used for row in table.rows(view_of(task).incumbent)) for task in made]

    assert min(used(0)) >= 9  # all eight sizes, and two agents or more
    assert max(used(1)) < 13
    assert min(used(1)) < 6


def test_the_pocket_engineers_whatever_shares_are_in_use():
    """It has seen no lesson in which some were not."""
    lessons = list(DOMAIN.generate(DOMAIN.space.parse({"fewer": 1}), 24, 5, Split.DEV))
    engineer = TaughtEngineer("policy", LocalPolicy("pocket"))
    for task in lessons[:2]:
        assert not engineer.propose(view_of(task), 0)[0].failure
    greedy = Sampling(temperature=0, max_tokens=128)
    judged = list(attempts(DOMAIN, engineer.policy, lessons, greedy, style="table"))
    assert np.mean([rollout.outcome.reward for rollout in judged]) > 0.6


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("", "parse"),
        ("size3 up up", "parse"),
        ('{"explanation": "x", "edits": []}', "nothing"),
        ('{"explanation": "x", "edits": [{"knob": "size99.x", "action": "raise"}]}', "unknown"),
        ('{"explanation": "x", "knobs": {"reward": 1}}', "unknown"),
        ('{"explanation": "x", "knobs": {"size3.hole_ratio": "many"}}', "parse"),
    ],
)
def test_answers_that_propose_nothing_have_their_class(tasks, text, failure):
    found = DOMAIN.verify(tasks[0], text)
    assert (found.failure, found.reward) == (failure, 0.0)


def test_the_reward_is_the_share_of_the_possible_gain(tasks):
    """Computed anew from the trainee, for every rule's answer."""
    for task in tasks[:8]:
        truth, view = Trainee.model_validate(task.data["trainee"]), view_of(task)
        text = DOMAIN.scripts["frontier"](task, random.Random(1), "")
        knobs = apply(json.loads(text)["knobs"], view.incumbent, task.data["reach"])
        now, best = signal(truth, view.incumbent), task.data["best"]
        gain = (signal(truth, knobs) - now) / (best - now)
        assert DOMAIN.verify(task, text).reward == pytest.approx(max(-0.5, min(1, gain)))


def test_doing_the_opposite_of_the_best_is_harm(tasks):
    turned = {"raise": "lower", "lower": "raise"}
    for task in tasks:
        edits = tuple(Edit(knob=k, action=turned[action]) for k, action in task.data["edits"])
        found = DOMAIN.verify(task, table.write(view_of(task).incumbent, edits))
        assert found.failure in ("harm", "weak", "nothing")
        assert found.reward < 0.2


@settings(max_examples=60)
@given(st.text(max_size=200))
def test_no_text_breaks_the_verdict(text):
    task = next(DOMAIN.generate(DOMAIN.space.defaults(), 1, 9, Split.TRAIN))
    assert not DOMAIN.verify(task, text).valid


def test_rules_sit_the_exam_and_frontier_does_better_than_chance(tasks):
    rewards = {
        name: np.mean([
            DOMAIN.verify(task, DOMAIN.scripts[name](task, random.Random(derive(0, task.id)), ""))
            .reward for task in tasks
        ])
        for name in ("oracle", "frontier", "random", "fixed")
    }  # fmt: skip
    assert rewards["oracle"] == 1
    assert rewards["fixed"] == 0
    assert rewards["frontier"] > rewards["random"] + 0.2


def test_a_task_that_lies_about_itself_is_refused(tasks):
    values = tasks[0].model_dump(mode="json")
    assert DOMAIN.load(values) == tasks[0]
    for name, told in (("best", values["data"]["signal"]), ("reach", 1.0), ("signal", 0.01)):
        other = {**values, "data": {**values["data"], name: told}}
        with pytest.raises(UserError, match=f"claims that {name} is {told!r}"):
            DOMAIN.load(other)
    values["data"]["trainee"]["skill"] += 1
    with pytest.raises(UserError, match="claims that signal"):
        DOMAIN.load(values)


def test_shares_that_are_not_in_use_are_as_hard_as_their_place_says():
    knobs = DOMAIN.space.parse({"irregular": 0})
    for task in DOMAIN.generate(knobs, 20, 1, Split.TRAIN):
        found = task.data["trainee"]["harder"]
        for members in get_domain("lake").space.groups.values():
            assert members[0] in found
            assert found[members[0]] <= found[members[-1]]


# --- the taught engineer


class Fluent:
    """Answers tables well at first, then with nonsense."""

    name = "fluent"

    def __init__(self, view):
        self.view, self.asked = view, []

    def answer(self, prompts, sampling):
        self.asked += [prompt.messages[-1].content for prompt in prompts]
        good = table.write(self.view.incumbent, (Edit(knob="size3.hole_ratio", action="raise"),))
        return [Completion(text="nonsense" if prompt.sample else good) for prompt in prompts]


def test_a_taught_engineer_is_asked_as_in_its_lessons(tasks):
    view = view_of(next(t for t in tasks if view_of(t).incumbent["size3.data_ratio"] > 0))
    policy = Fluent(view)
    first, second = TaughtEngineer("policy", policy).propose(view, 0)
    assert set(policy.asked) == {table.prompt(view)}
    raised = (Edit(knob="size3.hole_ratio", action="raise"),)
    assert first.patch.factor == "knobs"
    assert first.patch.value == edited(raised, view.incumbent, view.reach)
    assert first.patch.value["size3.hole_ratio"] > view.incumbent["size3.hole_ratio"]
    assert second.failure
    assert second.patch is None


def test_the_exam_holds_models_to_the_form_of_a_run(tasks):
    class Held:
        name = "held"

        def answer(self, prompts, sampling):
            self.schema = sampling.json_schema
            return [Completion(text="") for _ in prompts]

    policy = Held()
    list(attempts(DOMAIN, policy, tasks[:1], Sampling(), style="chat"))
    edit = json.loads(policy.schema)["$defs"]["Edit"]["properties"]["knob"]
    assert set(edit["enum"]) == set(LAKE.knobs)
    list(attempts(DOMAIN, policy, tasks[:1], Sampling(), style="table"))
    assert policy.schema is None


def test_lessons_are_the_same_from_any_number_of_workers():
    alone, several = (
        list(DOMAIN.generate(DOMAIN.space.defaults(), 70, 3, Split.DEV, workers))
        for workers in (1, 2)
    )
    assert several == alone


def test_lessons_fill_up_what_is_missing():
    lake = get_domain("lake")
    boards = list(lake.generate(lake.space.parse({}), 6, 1, Split.TRAIN))
    mixed = with_lessons(boards, 8, 1)
    assert [task.domain for task in mixed] == ["lake"] * 6 + ["engineering"] * 2
    assert {task.split for task in mixed} == {Split.TRAIN}
    assert with_lessons(boards, 6, 1) == boards


def test_training_with_lessons_is_evidence_about_the_domain_alone(tmp_path):
    recipe = {"steps": 2, "tasks": 4, "group": 2, "max_tokens": 60}
    plan = make_plan({"recipe": recipe, "lessons": 0.5}, "test")
    job = Job(number=0, plan=plan, harness=Harness(recipe=plan.recipe), policy="pocket", seed=0)
    lake, stage = get_domain("lake"), tmp_path / "stage"
    found = train_stage(TrlEngine(), lake, job, stage, Paths(tmp_path), None)
    assert found.spent.rollouts == 16
    assert sum(cell.n for cell in found.cells) == 8
    assert {"size", "agents"} <= found.cells[0].labels.keys()
    assert found.result.policy.startswith("run:stage/")
    assert not (stage / "checkpoints").exists()
