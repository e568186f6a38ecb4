"""The rule that aims at the target, what is explored for engineers, and how far knobs may go."""

from pathlib import Path

import pytest
from pretended import make_run

from coevolve.core.splits import Split
from coevolve.domains.base import Statistic
from coevolve.domains.registry import get_domain
from coevolve.engineers.aim import aim
from coevolve.engineers.base import Past, View
from coevolve.engineers.reach import evenly, widened
from coevolve.engineers.registry import RuleEngineer
from coevolve.harness.plan import make_plan
from coevolve.harness.proposal import Proposal
from coevolve.loop.loop import run_loop
from coevolve.loop.propose import idle
from coevolve.store.cells import Cell

SPACE = get_domain("lake").space
EASY = {"size5.data_ratio": 1.0, "agents2.share": 1.0}


def cell(agents: int, valid: int, n: int = 64) -> Cell:
    labels = {"agents": agents, "size": 5}
    return Cell(labels=labels, n=n, valid=valid, optimal=0, reward=float(valid), groups=8)


def view(dev: list[Cell], target: dict[str, float], explored: list[Cell] | None = None) -> View:
    knobs = SPACE.parse(EASY)
    last = Past(
        number=0, knobs=dict(knobs), dev=tuple(dev), train=(cell(2, 60),),
        explored=tuple(explored or ()),
    )  # fmt: skip
    found = {name: Statistic(value, 100) for name, value in target.items()}
    return View(SPACE, knobs, (last,), {}, found)


def test_it_goes_where_the_target_is() -> None:
    found, _ = aim(
        view([cell(4, 20), cell(5, 10)], {"agents4.share": 0.5, "agents5.share": 0.5}), 0
    )
    shares = SPACE.project(found, base=SPACE.parse(EASY))
    assert shares["agents4.share"] == pytest.approx(shares["agents5.share"], abs=0.05)
    assert shares["agents4.share"] + shares["agents5.share"] > 0.8


def test_what_is_dead_is_reached_by_way_of_what_lives() -> None:
    explored = [cell(3, 30), cell(4, 0), cell(5, 0)]
    found, _ = aim(view([cell(5, 0)], {"agents5.share": 1.0}, explored), 0)
    assert found["agents3.share"] > 0.7
    assert found["agents5.share"] < 0.1


def test_ratios_are_taken_over_and_what_fits_stays_as_it_is() -> None:
    same = {"agents2.share": 1.0, "size5.data_ratio": 1.0}
    knobs, _ = aim(view([cell(2, 60)], {**same, "size5.wait_ratio": 0.9}), 0)
    assert knobs["size5.wait_ratio"] == 0.9
    assert aim(view([cell(2, 60)], same), 0)[0] == {}
    assert aim(view([cell(2, 60)], {}), 0)[0], "without a target it goes by learnability"


def test_reach_widens_with_what_has_nothing_to_teach() -> None:
    live, dead = cell(2, 32), cell(3, 0).model_copy(update={"dead": 8})
    assert widened(0.2, [live]) == pytest.approx(0.2)
    assert widened(0.2, [live, dead]) == pytest.approx(0.6)
    assert widened(0.2, []) == 0.2


def test_kinds_are_explored_up_to_one_beyond_what_was_seen() -> None:
    found = evenly(SPACE.parse(EASY), [{"agents": 4, "size": 5}])
    assert found
    agents = [name for name in SPACE.groups["agents"] if found[name] > 0]
    assert agents == ["agents3.share", "agents4.share", "agents5.share"]


def test_what_is_explored_is_recorded_and_counted(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", scripts=("greedy", "greedy"), engineers=["aim"], explore=4)
    found = run_loop(run).generations[1].diagnose
    assert found
    assert sum(one.n for one in found.explored) == found.spent.rollouts == 4 * 2
    assert not make_plan({"engineers": ["fixed"]}, "").explores


@pytest.mark.parametrize("name", ["lake", "math", "code"])
def test_what_tasks_are_said_to_show_is_what_they_show(name: str) -> None:
    domain = get_domain(name)
    size4 = {"size4.data_ratio": 1.0} if name == "lake" else {}
    for knob in domain.space.knobs.values():
        if not knob.shown or (name == "lake" and knob.prefix != "size4"):
            continue
        for part in (0.3, 0.7):
            value = knob.low + part * (knob.high - knob.low)
            knobs = domain.space.project({knob.name: value}, base=domain.space.parse(size4))
            tasks = list(domain.generate(knobs, 100, 3, Split.TRAIN))
            found = domain.statistics(tasks)[knob.name].value
            assert found == pytest.approx(knobs[knob.name], abs=0.1 * (knob.high - knob.low))


def test_numbers_that_tasks_show_are_taken_over() -> None:
    space = get_domain("math").space
    knobs = space.parse({"steps": 2.0, "digits": 3.0})
    past = Past(number=0, knobs=dict(knobs), dev=(cell(2, 20),), train=())
    target = {"steps": Statistic(2.5, 100), "digits": Statistic(2.6, 100)}
    found, _ = aim(View(space, knobs, (past,), {}, target), 0)
    assert found["steps"] == 2.5
    assert "digits" not in found, "tasks show fewer digits than the knob says"


def test_why_there_is_nothing_to_try_is_told(tmp_path: Path) -> None:
    same = {"agents2.share": 1.0, "size5.data_ratio": 1.0}
    (said,) = RuleEngineer("aim").propose(view([cell(2, 60)], same), 0)
    why = "The tasks are those of the target already, where it is alive."
    assert said.words.endswith(why)
    assert idle({"aim": [said], "rules": [], "broken": [Proposal(failure="no")]}) == [
        f"aim has nothing to try: {said.words}"
    ]
    told = list[str]()
    run = make_run(tmp_path / "run", RuleEngineer("fixed"), ("greedy", "greedy"))
    run.say = told.append
    run_loop(run)
    lines = [line for line in told if "fixed has nothing to try" in line]
    assert [line.endswith("The knobs stay as they are.") for line in lines] == [True]
