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
from coevolve.domains.base import Statistic
from coevolve.domains.lake.knobs import SPACE as LAKE
from coevolve.domains.registry import get_domain
from coevolve.engineering import table
from coevolve.engineering.domain import knobs_of, outcome_of, view_of, worth
from coevolve.engineering.engineer import TaughtEngineer
from coevolve.engineering.lessons import draw_trainee, with_lessons
from coevolve.engineering.oracle import best_design
from coevolve.engineering.trainee import (
    WEIGHTS,
    Trainee,
    chances,
    gain,
    kinds,
    learned,
    logits,
    signal,
    tried,
)
from coevolve.engineers.model import ModelEngineer
from coevolve.engineers.reach import apply
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
    assert gains["size3.data_ratio"] > 4 * gains["size9.data_ratio"] > 0


# --- the oracle


def design(someone, start, target):
    offered = [f"size{size}.data_ratio" for size in range(3, 11)]
    agents = [f"agents{count}.share" for count in range(2, 9)]
    knobs = LAKE.project(
        start, base=LAKE.project(dict.fromkeys(LAKE.groups["agents"], 0.0) | start)
    )
    return best_design(someone, knobs, LAKE.parse(target), [*offered, *agents], 1.0)


def test_the_oracle_makes_hard_tasks_easier_and_easy_ones_harder():
    someone = trainee(0.0, 0.5, size3=-4.0, size10=4.0)
    start = {"size3.data_ratio": 0.5, "size10.data_ratio": 0.5}
    values = design(someone, start, {"size6.data_ratio": 1.0})
    before = LAKE.parse(start)
    for name in ("hole_ratio", "wait_ratio"):
        assert values[f"size3.{name}"] > before[f"size3.{name}"]
        assert values[f"size10.{name}"] < before[f"size10.{name}"]


def test_the_oracle_trains_on_the_target_where_it_is_alive_and_on_the_way_there_else():
    harder = {f"agents{count}.share": 2.0 * (count - 4) for count in range(1, 9)}
    target = {"agents4.share": 0.5, "agents5.share": 0.5}
    for skill, kind in ((0.0, "agents4.share"), (-8.0, "agents2.share")):
        someone = Trainee(skill=skill, harder=harder, slopes={}, spread=1.0)
        values = design(someone, {"agents8.share": 1.0}, target)
        agents = {name: value for name, value in values.items() if name.startswith("agents")}
        assert max(agents, key=agents.__getitem__) == kind
        assert sum(agents.values()) == pytest.approx(1)


def test_no_single_step_improves_on_the_oracle_much(tasks):
    """A little more of one share, or a little less, never brings over a tenth of the whole gain."""
    rng = random.Random(0)
    for task in tasks[:6]:
        view, best = view_of(task), task.data["design"]
        whole = task.data["best"] - task.data["now"]
        names = [row.share.name for row in table.rows(view)]
        for name in rng.sample(names, min(6, len(names))):
            for factor in (0.7, 1.4):
                knobs = apply({**best, name: factor * best[name]}, view.incumbent, 1.0)
                assert worth(task, knobs) <= task.data["best"] + 0.1 * whole


def test_what_is_gained_is_how_fast_the_target_gets_better(tasks):
    def rate(someone, knobs):
        made = kinds(knobs)
        shares = np.array([kind.share for kind in made])
        return shares @ (chances(someone, logits(someone, knobs, made)) @ WEIGHTS)

    for task in tasks[:6]:
        someone = Trainee.model_validate(task.data["trainee"])
        target = knobs_of(LAKE, task.data["wanted"])
        better = rate(learned(someone, target, 1e-4), target) - rate(someone, target)
        assert gain(someone, target, target) == pytest.approx(better / 1e-4, rel=0.01)


# --- answers


def test_tables_are_read_back_and_short(tasks):
    for task in tasks:
        view, best = view_of(task), task.data["design"]
        text = table.write(view, best)
        assert table.read(view, text) == pytest.approx(best)
        prompt = DOMAIN.prompt(task, "table")[0].content
        assert len(prompt.split()) + len(text.split()) < 216
        assert prompt.split()[-1] == "edits"


def test_a_table_shows_the_evidence_and_the_target(tasks):
    for task in tasks[:6]:
        view = view_of(task)
        row = DOMAIN.prompt(task, "table")[0].content.split(" / ")[0].split()
        found = table.rows(view)
        first = found[0]
        label, value = first.share.label
        own = [c for c in (*view.last.train, *view.last.explored) if c.labels[label] == value]
        own = own or [c for c in view.last.dev if c.labels[label] == value]
        n, valid = sum(cell.n for cell in own), sum(cell.valid for cell in own)
        assert row[0] == first.name
        sizes = sum(other.share.group == first.share.group for other in found)
        wanted = knobs_of(LAKE, task.data["wanted"])[first.share.name]
        assert int(row[2]) == min(9, int(4 * wanted * sizes + 1e-9))
        assert int(row[3]) == (min(9, int(10 * valid / n)) if n else 0)
        assert int(row[4]) == (min(9, int(np.log2(n + 1))) if n else 0)


def test_shares_that_are_not_in_use_have_rows_and_can_be_opened(tasks):
    view = view_of(tasks[0])._replace(
        incumbent=LAKE.parse({"size4.data_ratio": 1.0, "agents3.share": 1.0}),
        target={"agents5.share": Statistic(1.0, 100)},
    )
    found = table.rows(view)
    sizes, agents = [f"size{size}" for size in range(3, 11)], [f"agents{n}" for n in (2, 3, 4, 5)]
    assert [row.name for row in found] == [*sizes, *agents]
    text = " / ".join(
        f"{row.name} {9 if row.name in ('size6', 'agents4') else 0}"
        + (" up same" if row.difficulties else "")
        for row in found
    )
    values = table.read(view, text)
    assert values["size6.data_ratio"] == values["agents4.share"] == 1
    assert values["size4.data_ratio"] == values["agents3.share"] == 0
    assert values["size6.hole_ratio"] > view.incumbent["size6.hole_ratio"]
    nothing = table.read(view, text.replace(" 9", " 0"))
    assert nothing["size4.data_ratio"] == nothing["agents3.share"] == 1


def test_the_middle_of_designs_is_their_mean(tasks):
    view = view_of(tasks[0])
    first = {"agents2.share": 1.0, "agents3.share": 0.0, "size3.hole_ratio": 0.4}
    second = {"agents2.share": 0.5, "agents3.share": 0.5}
    now = view.incumbent["size3.hole_ratio"]
    assert table.middle(view, [first, second]) == pytest.approx(
        {"agents2.share": 0.75, "agents3.share": 0.25, "size3.hole_ratio": (0.4 + now) / 2}
    )


def test_some_lessons_use_only_some_shares():
    def used(fewer):
        knobs = DOMAIN.space.parse({"fewer": fewer, "apart": 0})
        first = [task.data["rounds"][0]["knobs"] for task in
                 DOMAIN.generate(knobs, 12, 4, Split.TRAIN)]  # fmt: skip
        sizes = LAKE.groups["sizes"]
        return [sum(knobs_of(LAKE, one)[name] > 0 for name in sizes) for one in first]

    assert np.mean(used(0)) > 7 > 5 > np.mean(used(1))


def test_the_pocket_engineers_whatever_shares_are_in_use():
    lessons = list(DOMAIN.generate(DOMAIN.space.parse({"fewer": 1}), 24, 5, Split.DEV))
    engineer = TaughtEngineer("policy", LocalPolicy("pocket"))
    found = [engineer.propose(view_of(task), 0)[0] for task in lessons]
    assert not any(one.failure for one in found)
    rewards = [outcome_of(task, view_of(task), one.patch.value).reward
               for task, one in zip(lessons, found, strict=True)]  # fmt: skip
    assert np.mean(rewards) > 0.6


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
        knobs = apply(json.loads(text).get("knobs", {}), view.incumbent, 1.0)
        target = knobs_of(LAKE, task.data["wanted"])
        now, best = gain(truth, view.incumbent, target), task.data["best"]
        share = (gain(truth, knobs, target) - now) / (best - now)
        reward = DOMAIN.verify(task, text).reward
        assert reward == pytest.approx(max(-0.5, min(1, share)), abs=0.011)


def test_doing_the_opposite_of_the_best_is_harm(tasks):
    """Most of what the best design has least of, and every step the other way; from a dead start
    even that gains a little."""
    turned = {"up": "down", "down": "up", "same": "same"} | {str(n): str(9 - n) for n in range(10)}
    rewards = []
    for task in tasks:
        words = DOMAIN.oracle(task, "table").split()
        found = DOMAIN.verify(task, " ".join(turned.get(word, word) for word in words))
        assert found.failure in ("harm", "weak", "nothing")
        rewards.append(found.reward)
    assert np.mean(rewards) < -0.1


@settings(max_examples=60)
@given(st.text(max_size=200))
def test_no_text_breaks_the_verdict(text):
    task = next(DOMAIN.generate(DOMAIN.space.defaults(), 1, 9, Split.TRAIN))
    assert not DOMAIN.verify(task, text).valid


def test_rules_sit_the_exam_and_aim_does_better_than_chance(tasks):
    rewards = {
        name: np.mean([
            DOMAIN.verify(task, DOMAIN.scripts[name](task, random.Random(derive(0, task.id)), ""))
            .reward for task in tasks
        ])
        for name in ("oracle", "aim", "random", "fixed")
    }  # fmt: skip
    assert rewards["oracle"] > 0.99  # its shares are written in hundredths
    assert rewards["fixed"] == 0
    assert rewards["aim"] > rewards["random"] + 0.2


def test_a_task_that_lies_about_itself_is_refused(tasks):
    values = tasks[0].model_dump(mode="json")
    assert DOMAIN.load(values) == tasks[0]
    for name, told in (("best", values["data"]["now"]), ("reach", 0.5), ("now", 0.01)):
        other = {**values, "data": {**values["data"], name: told}}
        with pytest.raises(UserError, match=f"claims that {name} is {told!r}"):
            DOMAIN.load(other)
    values["data"]["trainee"]["skill"] += 1
    with pytest.raises(UserError, match=r"claims that|no lesson"):
        DOMAIN.load(values)


def test_shares_that_are_not_in_use_are_as_hard_as_their_place_says():
    knobs, rng = DOMAIN.space.parse({"irregular": 0}), np.random.default_rng(1)
    for _ in range(20):
        found = draw_trainee(knobs, LAKE.defaults(), rng).harder
        for members in LAKE.groups.values():
            assert found[members[0]] <= found[members[-1]]


# --- the taught engineer


class Fluent:
    """Answers tables well, but for every fourth time."""

    name = "fluent"

    def __init__(self, good):
        self.good, self.asked = good, []

    def answer(self, prompts, sampling):
        self.asked += [prompt.messages[-1].content for prompt in prompts]
        bad = (prompt.sample % 4 == 3 for prompt in prompts)
        return [Completion(text="nonsense" if spoilt else self.good) for spoilt in bad]


def test_a_taught_engineer_is_asked_as_in_its_lessons(tasks):
    view = view_of(tasks[0])
    policy = Fluent(table.write(view, tasks[0].data["design"]))
    (proposal,) = TaughtEngineer("policy", policy).propose(view, 0)
    assert set(policy.asked) == {table.prompt(view)}
    assert proposal.patch.factor == "knobs"
    assert proposal.patch.value == pytest.approx(tasks[0].data["design"])


def test_an_engineer_that_was_taught_prose_is_asked_as_in_its_lessons(tasks):
    class Prose:
        name = "prose"

        def answer(self, prompts, sampling):
            assert sampling.json_schema == table.form(view_of(tasks[0]))
            assert sampling.temperature == 0
            assert prompts[0].messages == DOMAIN.prompt(tasks[0], "V2")
            return [Completion(text=DOMAIN.oracle(tasks[0], "V2"))]

    engineer = ModelEngineer("prose", Prose(), ("V2",), "whole", taught=table.form)
    (proposal,) = engineer.propose(view_of(tasks[0]), 0)
    asked, design = proposal.patch.value, tasks[0].data["design"]
    assert asked == pytest.approx({name: design[name] for name in asked}, abs=0.006)
    assert not any(value for name, value in design.items() if name not in asked)
    assert "size3 0.066, 0 %: 9, hole_ratio down" in proposal.words


def test_lessons_are_answered_in_the_form_that_runs_hold_answers_to(tasks):
    """All knobs that an answer may name come once, in their order."""
    for task in tasks:
        form = json.loads(table.form(view_of(task)))["properties"]
        allowed = list(form["knobs"]["properties"])
        said = json.loads(DOMAIN.oracle(task, "V6"))
        places = [allowed.index(name) for name in said["knobs"]]
        assert places == sorted(set(places))
        assert list(said) == list(form)


def test_the_oracle_earns_all_of_the_reward_in_words():
    """Of these 60, some do not with shares in hundredths."""
    finer = 0
    for task in DOMAIN.generate(DOMAIN.space.defaults(), 60, 11, Split.DEV):
        said = DOMAIN.oracle(task, "V6")
        assert DOMAIN.verify(task, said).reward == DOMAIN.full_reward
        finer += any(round(value, 2) != value for value in json.loads(said)["knobs"].values())
    assert 0 < finer < 15


def test_the_oracle_tells_the_numbers_that_decided(tasks):
    for task in tasks:
        said = json.loads(DOMAIN.oracle(task, "V6"))
        shown = DOMAIN.prompt(task, "V6")[-1].content
        sums = []
        for row in said["explanation"].split(": ", 1)[1].split("; "):
            if " in all " in row:
                sums.append(int(row.rpartition(" ")[2]))
                continue
            solved, alone = row.split(", ")[1].split(":")[0], f"By {row[:4]}" not in shown
            assert alone or solved == "untried" or f", {solved} |" in shown
        assert len(sums) == 2
        assert len(said["explanation"]) <= 600


def test_what_changes_hardly_anything_is_not_proposed(tasks):
    view = view_of(tasks[0])
    policy = Fluent(table.write(view, view.incumbent))
    (proposal,) = TaughtEngineer("policy", policy).propose(view, 0)
    assert (proposal.patch, proposal.failure) == (None, "")


def test_a_taught_engineer_without_a_readable_answer_has_failed(tasks):
    (proposal,) = TaughtEngineer("policy", Fluent("size3 up")).propose(view_of(tasks[0]), 0)
    assert proposal.failure
    assert proposal.patch is None


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
