"""The loop, with scripts for policies: what is kept, pruned, reverted, refused, merged, resumed."""

import json
import re
import shutil
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pretended import (
    LAKE,
    SMALL,
    STEPS,
    TREE,
    Hostile,
    Listed,
    Pretended,
    Saying,
    load,
    make_run,
    temperature,
)
from typer.testing import CliRunner

from coevolve.cli.live import view_of
from coevolve.cli.main import app
from coevolve.cli.run import finish
from coevolve.core.errors import EvidenceError, KnobError, PolicyError, UserError
from coevolve.core.rollout import StopReason
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.diagnostics.health import Diagnosis, Health
from coevolve.diagnostics.suite import load_suite
from coevolve.diagnostics.versions import versions_of
from coevolve.domains.registry import get_domain
from coevolve.engineers.base import Past, View, change_knobs
from coevolve.engineers.registry import ENGINEERS
from coevolve.engines.base import Observe, Result, Stage
from coevolve.evaluation.attempts import attempts
from coevolve.harness.diagnostic import Finding
from coevolve.harness.patch import Patch
from coevolve.harness.plan import make_plan
from coevolve.harness.proposal import Proposal
from coevolve.loop import backtest, begin
from coevolve.loop.backtest import merge
from coevolve.loop.create import More, Own, check, create, reopen
from coevolve.loop.final import final
from coevolve.loop.learn import proposed
from coevolve.loop.loop import run_loop
from coevolve.loop.propose import screen
from coevolve.loop.run import Run, first_harness
from coevolve.loop.train import code_hash, one_by_one, seed_of
from coevolve.policies.base import Sampling
from coevolve.policies.script import ScriptedPolicy
from coevolve.store import approval
from coevolve.store.gauge import Gauge
from coevolve.store.ledger import Ledger
from coevolve.store.lineage import Lineage, lineage_of, plan_of
from coevolve.store.spent import spent_so_far

GOOD, BAD, SAME = temperature(0.9), temperature(0.8), temperature(0.7)
KL = {"factor": "recipe.kl", "value": 0.1}
BEYOND = {"rollouts": 300}


def verdicts(lineage: Lineage) -> list[str | None]:
    return [one.verdict for one in lineage.versions]


def holes(lineage: Lineage) -> list[float]:
    return [one.harness.knobs["size3.hole_ratio"] for one in lineage.versions]


def stages(run: Run) -> list[str]:
    """What versions were trained from, by script."""
    return [one.model for one in engine_of(run).trained]


def engine_of(run: Run) -> Pretended:
    engine: Pretended = run.work.__closure__[0].cell_contents  # type: ignore[attr-defined]
    return engine


def with_engine(run: Run, engine: Any) -> Run:
    run.work = one_by_one(engine, run.gauge, None)
    return run


def facts(lineage: Lineage) -> tuple[Any, ...]:
    """What was decided, times aside."""
    gates = [node.gate.model_dump(exclude={"spent", "scores"}) for node in lineage.nodes
             if node.gate]  # fmt: skip
    return lineage.versions, gates, lineage.best


def ends_with(lineage: Lineage, folder: Path) -> str:
    """The script that a run ends with."""
    assert lineage.best
    name = lineage.policy(lineage.best.version)
    file = folder / name.removeprefix("run:") / "script"
    return file.read_text() if file.is_file() else name


# Where training goes on from the parent, and what is no worse is kept.


def test_better_is_kept_worse_is_reverted(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    lineage = run_loop(run)
    assert verdicts(lineage) == ["kept", "reverted", "kept"]
    assert ends_with(lineage, tmp_path / "run") == "prioritised"
    first = str(tmp_path / "run" / "versions" / "00" / "stage" / "policy")
    assert stages(run) == ["greedy", first, first]
    assert [one.parent for one in lineage.versions] == [None, 0, 0]
    assert run.ledger.state() == "done"


@pytest.mark.parametrize(("scripts", "handed"), [
    (("prioritised", "greedy", "greedy"), 0),
    (("prioritised", "prioritised", "prioritised"), 2),
])  # fmt: skip
def test_the_newest_version_is_handed_out_unless_an_older_one_is_clearly_ahead(
    tmp_path: Path, scripts: tuple[str, ...], handed: int
) -> None:
    gate = {"margin": 1.0, "protected_fall": 1.0}
    lineage = run_loop(make_run(tmp_path / "run", scripts=scripts, gate=gate))
    assert verdicts(lineage) == ["kept"] * 3
    assert lineage.best
    assert lineage.best.version == handed


def test_a_policy_that_solves_nothing_is_told_of_before_it_is_trained(tmp_path: Path) -> None:
    said: list[str] = []
    run = make_run(tmp_path / "run", policy="random", scripts=("greedy",))
    run.say = said.append
    tasks = run.gauge.gate
    silent = [
        one.model_copy(update={"stop": StopReason.LENGTH})
        for one in attempts(LAKE, Hostile(), tasks, Sampling())
    ]
    cut, none, advice = begin.doubts(silent, run.plan, LAKE)
    assert cut.startswith(f"{len(tasks)} of {len(tasks)} answers are cut off after")
    assert none.startswith(f"no answer is valid; {len(tasks)} of {len(tasks)} fail by parse (no si")
    assert "coevolve train warm -p random -d lake" in advice
    run_loop(run)
    assert said[0].startswith("training begins with these tasks: 50 % tasks with 3x3 boards")
    assert said[1] == "measuring the untrained policy on 60 tasks, one answer each"
    assert said[2].startswith("untrained: ")
    assert not any(words.startswith("beware") for words in said)
    good = list(attempts(LAKE, ScriptedPolicy(LAKE, "greedy"), tasks, Sampling()))
    assert list(begin.doubts(good, run.plan, LAKE)) == []


def test_where_nobody_ever_proposes_anything_all_versions_are_trained(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", ENGINEERS["fixed"](), scripts=("greedy",) * 6)
    lineage = run_loop(run)
    assert (len(lineage.versions), run.ledger.state()) == (6, "done")


def test_a_short_first_version_shows_what_is_wrong_before_it_costs_much(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", scripts=("prioritised",) * 3, first_steps=1)
    run_loop(run)
    assert [stage.recipe.steps for stage in engine_of(run).trained] == [1, STEPS, STEPS]
    assert run.plan.spared == (STEPS - 1) * run.plan.recipe.tasks * run.plan.recipe.group


def test_where_versions_begin_alike_the_first_is_as_long_as_others(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="start_from"):
        make_run(tmp_path / "run", **TREE, first_steps=1)


def test_rounds_train_under_the_reward_of_the_plan(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", reward="(valid + optimal) / 2")
    lineage = run_loop(run)
    assert {one.reward for one in engine_of(run).trained} == {"(valid + optimal) / 2"}
    assert {one.harness.reward for one in lineage.versions} == {"(valid + optimal) / 2"}
    with pytest.raises(UserError, match="'optimum' in"):
        check(run.plan.model_copy(update={"reward": "valid + optimum"}), engine_of(run).check)


def test_reverted_twice_it_goes_back_to_the_first_knobs(tmp_path: Path) -> None:
    scripts = ("random", "random", "prioritised")
    run = make_run(tmp_path / "run", scripts=scripts, policy="prioritised")
    lineage = run_loop(run)
    assert verdicts(lineage) == ["reverted", "reverted", "kept"]
    assert holes(lineage)[0] < holes(lineage)[1] == holes(lineage)[2]
    assert stages(run) == ["prioritised"] * 3
    assert [one.parent for one in lineage.versions] == [None, None, None]


def test_a_training_that_was_stopped_is_taken_back(tmp_path: Path) -> None:
    class Stopping(Pretended):
        def train(
            self, stage: Stage, tasks: Sequence[Task], observe: Observe | None = None
        ) -> Result:
            found = super().train(stage, tasks, observe)
            dead = int(stage.folder.parent.name) == 1
            return found.model_copy(update={"stopped": "all groups are dead" if dead else None})

    scripts = ("greedy", "prioritised", "prioritised")
    run = with_engine(make_run(tmp_path / "run"), Stopping(scripts))
    lineage = run_loop(run)
    assert verdicts(lineage) == ["kept", "reverted", "kept"]
    assert "all groups are dead" in lineage.versions[1].words
    assert holes(lineage)[0] < holes(lineage)[1] == holes(lineage)[2]


class Impossible:
    """Wants boards of which there are none, although each knob could be so."""

    name = "impossible"

    def propose(self, view: View, seed: int) -> list[Proposal]:
        return [change_knobs({"detour.min": 2, "detour.max": 1}, "trust me")]


@pytest.mark.parametrize("probed", [True, False])
def test_knobs_that_make_no_tasks_are_refused_and_the_run_goes_on(
    tmp_path: Path, probed: bool
) -> None:
    tight = {"size3.data_ratio": 1.0, "agents2.share": 1.0, "detour.min": 1, "detour.max": 4}
    rule = {"on": probed, "tasks": 8, "samples": 2}
    run = make_run(tmp_path / "run", Impossible(), ("greedy", "greedy"), knobs=tight, backtest=rule)
    lineage = run_loop(run)
    assert run.ledger.state() == "done"
    assert lineage.versions[1].patch is None
    tests = lineage.generations[1].tests
    assert tests
    assert "its tasks cannot be made: these knobs cannot be met" in tests.tried[0].refused


def test_knobs_that_make_no_tasks_any_more_give_way_to_earlier_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", scripts=("greedy",) * 3)
    last, plain = seed_of(run.plan, 2), backtest.own_tasks

    def scarce(domain: Any, knobs: Any, recipe: Any, seed: int, lessons: float) -> list[Task]:
        if seed == last and knobs["size3.hole_ratio"] > 0.2:
            raise KnobError("too many holes")
        return plain(domain, knobs, recipe, seed, lessons)

    monkeypatch.setattr(backtest, "own_tasks", scarce)
    lineage = run_loop(run)
    assert holes(lineage)[0] == holes(lineage)[2] < holes(lineage)[1]
    assert [one.author for one in lineage.versions] == ["start", "saying", "start"]
    tests = lineage.generations[2].tests
    assert tests
    assert "its tasks cannot be made: too many holes" in tests.tried[0].refused
    patch = lineage.versions[2].patch
    assert patch
    assert patch.hypothesis == "The knobs of version 0 stand in, since too many holes"


def test_what_failed_is_paid_for(tmp_path: Path) -> None:
    class Paid:
        name = "paid"
        policy = SimpleNamespace(
            usage=SimpleNamespace(prompt_tokens=9, completion_tokens=1, cost=1.0)
        )

        def propose(self, view: View, seed: int) -> list[Proposal]:
            self.policy.usage.cost, self.policy.usage.prompt_tokens = 3.5, 109
            raise OSError("gone")

    lineage = run_loop(make_run(tmp_path / "run", Paid(), ("greedy", "greedy")))
    (phase,) = lineage.generations[1].proposed
    assert re.match(
        r"OSError: gone, in .*test_loop.py, line \d+$", phase.proposals["paid"][0].failure
    )
    assert (phase.spent.tokens, phase.spent.money) == (100, 2.5)


def test_an_engineer_that_ends_the_program_has_failed(tmp_path: Path) -> None:
    class Leaving:
        name = "leaving"

        def propose(self, view: View, seed: int) -> list[Proposal]:
            sys.exit("no luck")

    lineage = run_loop(make_run(tmp_path / "run", Leaving(), ("greedy", "greedy")))
    (failed,) = lineage.generations[1].proposed[0].proposals["leaving"]
    assert failed.failure.startswith("SystemExit: no luck, in ")


def test_seconds_of_a_phase_that_broke_off_are_spent(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", scripts=("greedy",))

    def broken(_folders: Sequence[Path]) -> None:
        time.sleep(0.3)
        raise KeyboardInterrupt

    run.work = broken
    with pytest.raises(KeyboardInterrupt):
        run_loop(run)
    (stopped,) = run.ledger.events("stopped")
    assert stopped.payload["spent"]["seconds"] >= 0.3
    assert spent_so_far(run.ledger).seconds >= 0.3


@pytest.mark.parametrize("start", ["default", "random"])
def test_named_shares_are_all_there_is_of_their_group(tmp_path: Path, start: str) -> None:
    run = make_run(tmp_path / "run", start=start)
    knobs = first_harness(run.plan, run.gauge).knobs
    assert {n: v for n, v in knobs.items() if n.endswith("data_ratio") and v} == {
        "size3.data_ratio": 0.5, "size4.data_ratio": 0.5,
    }  # fmt: skip


class Telling:
    """Says what it sees of the last version, and wants more holes."""

    name = "telling"

    def __init__(self) -> None:
        self.views: list[View] = []

    def propose(self, view: View, seed: int) -> list[Proposal]:
        self.views.append(view)
        words = f"version {view.last.number}: {view.last.verdict} {view.note}"
        (said, _) = Saying(words).propose(view, seed)
        return [said]


def test_engineers_see_their_own_words_and_nothing_of_the_gate(tmp_path: Path) -> None:
    engineer = Telling()
    run_loop(make_run(tmp_path / "run", engineer, ("prioritised",) * 3))
    said = [past.explanation for past in engineer.views[-1].history]
    assert said == ["", "version 0: kept "]
    assert {"gate", "scores"}.isdisjoint(Past.model_fields)
    shown = " ".join(str(one) for one in engineer.views[-1].history)
    assert "n 60" not in shown


def test_engineers_are_told_the_rules_and_why_a_version_was_taken_back(tmp_path: Path) -> None:
    engineer = Telling()
    run = make_run(tmp_path / "run", engineer, ("prioritised", "random", "prioritised"))
    run_loop(run)
    last = engineer.views[-1]
    assert [past.verdict for past in last.history] == ["kept", "reverted"]
    assert last.history[0].why == "better beyond noise on the tasks that decide"
    assert last.history[1].why.startswith("worse on the tasks that decide; what is protected fell")
    assert not any(character in last.history[1].why for character in ".%+")
    plan = run.plan
    assert last.acceptance == (plan.objective, plan.accept, plan.backtest, plan.gate)


def test_engineers_are_told_what_was_asked_for_and_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coevolve.engineers.view.widened", lambda reach, cells: reach)
    engineer = Telling()
    sure = {"confidence": 1.0, "tasks": 4, "samples": 2}
    run = make_run(
        tmp_path / "run", engineer, ("greedy",) * 3, backtest=sure, reach=0.01, explore=0
    )
    run_loop(run)
    found = engineer.views[-1].refused
    assert [one.words.split(":")[0] for one in found] == ["rejected by its backtest"]
    assert found[0].before.knobs == run.lineage.versions[0].harness.knobs
    assert found[0].asked["size3.hole_ratio"] > found[0].harness.knobs["size3.hole_ratio"]


def test_switched_off_nothing_is_reverted(tmp_path: Path) -> None:
    scripts = ("prioritised", "random", "random")
    lineage = run_loop(make_run(tmp_path / "run", scripts=scripts, gate={"on": False}))
    assert verdicts(lineage) == ["kept"] * 3
    assert ends_with(lineage, tmp_path / "run") == "random"


def test_proposals_are_recorded_and_stay_within_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coevolve.engineers.view.widened", lambda reach, cells: reach)
    run = make_run(tmp_path / "run", scripts=("greedy",) * 3, reach=0.1)
    said: list[str] = []
    run.say = said.append
    lineage = run_loop(run)
    found = holes(lineage)
    assert found[0] < found[1] < found[2]
    assert max(after - before for before, after in pairwise(found)) <= 0.05 + 1e-9
    tests = lineage.generations[1].tests
    assert tests
    assert tests.tried[0].asked["size3.hole_ratio"] > found[1], "what was asked for stays told"
    (phase,) = lineage.generations[1].proposed
    assert phase.proposals["saying"][1].failure == "had no second idea more holes"
    assert any("saying: 1 of 2 proposals cannot be used" in line for line in said)


def test_the_same_knobs_count_once_and_engineers_have_a_ticket_each(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path / "run", scripts=("greedy",))
    run_loop(run)
    said = [change_knobs({"size3.hole_ratio": value}, "so") for value in (0.3, 0.3, 0.1)]
    every = [*said, Proposal(failure="prose"), Proposal()]
    incumbent = LAKE.space.project(run.lineage.versions[0].harness.knobs)
    view = View(LAKE.space, incumbent, (), {}, reach=1)
    designs, refused = screen(run, 0, view, {"one": every, "other": every})
    assert [one.author for one in designs] == ["one", "other"], "each has one design of knobs tried"
    assert [one.patch.value["size3.hole_ratio"] for one in designs] == [0.3, 0.1]
    assert len(refused) == 4


def test_a_spent_budget_ends_a_run_with_what_it_has(tmp_path: Path) -> None:
    scripts = ("prioritised",) * 3
    run = make_run(tmp_path / "run", scripts=scripts, budget={"rollouts": 210})
    lineage = run_loop(run)
    assert len(lineage.nodes) == 2
    assert run.ledger.state() == "stopped"
    reason = run.ledger.events("stopped")[0].payload["reason"]
    assert "budget of rollouts is used up: " in reason
    again = make_run(tmp_path / "run", scripts=scripts, budget={"rollouts": 210})
    assert facts(run_loop(again)) == facts(lineage)
    assert len(again.ledger.events("stopped")) == 1


class Killed(Exception):
    """Stands for the end of the process."""


def test_a_budget_that_is_used_up_later_stops_no_version_that_was_begun(tmp_path: Path) -> None:
    # Of two versions, the second goes beyond it: what began is judged, killed or not.
    scripts = ("greedy", "prioritised")
    whole = make_run(tmp_path / "whole", scripts=scripts, budget=BEYOND)
    expected = facts(run_loop(whole))
    assert whole.ledger.state() == "done"
    killed = make_run(tmp_path / "killed", scripts=scripts, budget=BEYOND)
    measure = killed.gauge.measure

    def measured(policy: str, tasks: Any, folder: Path, *more: Any) -> Any:
        if folder.parts[-2:] == ("01", "gate"):
            raise Killed
        return measure(policy, tasks, folder, *more)

    killed.gauge.measure = measured  # type: ignore[method-assign]
    with pytest.raises(Killed):
        run_loop(killed)
    killed.ledger.close()
    resumed = make_run(tmp_path / "killed", scripts=scripts, budget=BEYOND)
    assert facts(run_loop(resumed)) == expected
    assert resumed.ledger.state() == "done"


def answering(run: Run, answers: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """A person in another terminal, who answers whatever is asked; returns what was."""
    left, asked = iter(answers), list[tuple[str, str]]()

    def say(line: str) -> None:
        if "waiting" in line:
            with Ledger.open(run.ledger.folder) as ledger:
                question = approval.waiting(ledger)
                if question is not None:
                    asked.append((question.place, question.gate))
                    approval.answer(ledger, *next(left))  # type: ignore[arg-type]

    run.say = say
    return asked


def test_what_a_person_aborts_at_its_completion_is_kept(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"scripts": ("prioritised",), "approval": ["completion"]}
    run = make_run(tmp_path / "run", **changes)
    answering(run, [("abort", "enough")])
    lineage = run_loop(run)
    assert verdicts(lineage) == ["kept"]
    assert run.ledger.last().payload["policy"] == "run:versions/00/stage/policy"
    again = make_run(tmp_path / "run", **changes)
    asked = answering(again, [])
    assert facts(run_loop(again)) == facts(lineage)
    assert not asked


def test_a_person_can_approve_revise_and_abort(tmp_path: Path) -> None:
    engineer = Telling()
    run = make_run(tmp_path / "run", engineer, ("greedy",) * 3, approval=["design", "completion"])
    asked = answering(
        run,
        [
            ("approve", ""),
            ("revise", "fewer holes"),
            ("revise", "fewer still"),
            ("approve", ""),
            ("approve", "larger boards"),
            ("abort", "no"),
        ],
    )
    lineage = run_loop(run)
    assert asked == [
        ("versions/00", "completion"), ("generations/01", "design"), ("generations/01", "design"),
        ("generations/01", "design"), ("versions/01", "completion"), ("generations/02", "design"),
    ]  # fmt: skip
    assert len(lineage.nodes) == 2
    end = run.ledger.last()
    assert end.kind == "stopped"
    assert end.payload["reason"] == "aborted at the design of generations/02: no"
    question = run.ledger.events("asked")[1].payload["question"]
    assert "size3.hole_ratio: 0.2 → " in question["proposals"]["telling"]
    first, second, third = engineer.views[:3]
    assert (first.note, second.note) == ("", "fewer holes")
    assert third.note == "fewer still\nfewer holes", "earlier notes are kept, the newest first"
    assert "size3.hole_ratio" in third.returned
    assert engineer.views[3].note == "larger boards"
    assert [phase.note for phase in lineage.generations[1].proposed] == [
        "", "fewer holes", "fewer still\nfewer holes",
    ]  # fmt: skip


@pytest.mark.parametrize("plan", [{}, TREE])
def test_a_revision_never_ends_a_run(tmp_path: Path, plan: dict[str, Any]) -> None:
    engineer = Listed(GOOD, KL) if plan else Saying()
    changes = {**plan, "versions": 2, "approval": ["design"]}
    run = make_run(tmp_path / "run", engineer, ("greedy", "greedy"), **changes)
    asked = answering(run, [("revise", "no")] * 9 + [("approve", "")] * 5)
    lineage = run_loop(run)
    assert len(asked) >= 9
    assert run.ledger.state() == "done"
    assert len(lineage.nodes) == 2


def test_splits_are_what_they_should_be(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    seen: list[Task] = []

    class Looking(Pretended):
        def train(
            self, stage: Stage, tasks: Sequence[Task], observe: Observe | None = None
        ) -> Result:
            seen.extend(tasks)
            return super().train(stage, tasks, observe)

    run_loop(with_engine(run, Looking(("greedy",) * 3)))
    assert {task.split for task in seen} == {"train"}
    assert {task.split for task in run.gauge.dev} == {"dev"}
    assert {task.split for task in run.gauge.gate} == {"gate"}


SCRIPTS = ("prioritised", "random")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[tuple[Any, ...], int]:
    """What comes of a run that was never broken off, and how many phases it has."""
    run = make_run(tmp_path_factory.mktemp("runs") / "whole", scripts=SCRIPTS)
    return facts(run_loop(run)), len(run.ledger.events("phase"))


@pytest.mark.parametrize("at", range(14))
def test_broken_off_in_any_phase_it_goes_on_to_the_same_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, whole: tuple[tuple[Any, ...], int]
) -> None:
    expected, phases = whole
    assert phases == 14
    plain, done = Ledger.phase, list[str]()

    def breaking(self: Ledger, place: str, name: str, work: Any) -> Any:
        def once() -> Any:
            found = work()
            done.append(name)
            if len(done) == at + 1:
                raise Killed
            return found

        return plain(self, place, name, once)

    monkeypatch.setattr(Ledger, "phase", breaking)
    run = make_run(tmp_path / "broken", scripts=SCRIPTS)
    with pytest.raises(Killed):
        run_loop(run)
    run.ledger.close()
    assert facts(run_loop(make_run(tmp_path / "broken", scripts=SCRIPTS))) == expected


def test_frontier_makes_solved_math_harder(tmp_path: Path) -> None:
    math = get_domain("math")

    class Ending(Pretended):
        def train(
            self, stage: Stage, tasks: Sequence[Task], observe: Observe | None = None
        ) -> Result:
            policy = self.scripts[int(stage.folder.parent.name)]
            return Result(policy=policy, steps=1, rollouts=8)

    plan = make_plan(
        {
            "domain": "math", "policy": "careless", "recipe": {"steps": 2, "tasks": 4},
            "target": {"dev": 160, "gate": 60}, "backtest": {"on": False},
        },
        "test",
    )  # fmt: skip
    gauge = Gauge(plan, math, lambda name: (ScriptedPolicy(math, name), ""))
    ledger = Ledger.create(tmp_path / "run", plan.model_dump(mode="json"))
    work = one_by_one(Ending(("oracle", "silent", "oracle")), gauge, None)
    run = Run(plan, ledger, gauge, lambda checkpoint: {"frontier": ENGINEERS["frontier"]}, work)
    lineage = run_loop(run)
    assert verdicts(lineage) == ["kept", "reverted", "kept"]
    digits = [one.harness.knobs["digits"] for one in lineage.versions]
    assert digits[1] > digits[0] == math.space.defaults()["digits"]


# Where every version begins again, and what is better is kept.


def test_better_is_kept_worse_reverted_the_same_pruned(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Listed(SAME, BAD, GOOD), **TREE)
    lineage = run_loop(run)
    assert verdicts(lineage) == ["root", "pruned", "reverted", "kept"]
    assert lineage.best
    assert lineage.best.version == 3
    assert "better than no training" in lineage.best.words
    assert run.ledger.state() == "done"
    assert {one.parent for one in lineage.versions[1:]} == {0}
    assert "not better beyond chance" in lineage.versions[1].words
    rows = {row["version"]: row for row in versions_of(tmp_path / "run")}
    assert [rows[n]["verdict"] for n in range(4)] == ["root", "pruned", "reverted", "kept"]
    assert rows[3]["parent"] == 0
    assert rows[3]["factor"] == "recipe.temperature"
    assert run.ledger.find("phase/versions/03/version").payload["code"] == code_hash()  # type: ignore[union-attr]
    with Diagnosis(tmp_path / "run") as diagnosis:
        told = str(diagnosis.locked.ask("SELECT * FROM versions"))
    assert "kept" in told
    assert "n 60" not in told
    with Diagnosis(tmp_path / "run", blind=True) as diagnosis:
        assert "kept" not in str(diagnosis.locked.ask("SELECT verdict FROM versions"))


def test_the_fold_of_the_ledger_is_what_the_loop_had(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Listed(SAME, BAD, GOOD), **TREE)
    lineage = run_loop(run)
    assert lineage_of(run.ledger) == lineage


def test_a_version_grows_from_the_best(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Listed(GOOD, KL), **{**TREE, "versions": 3})
    lineage = run_loop(run)
    assert [one.parent for one in lineage.versions] == [None, 0, 1]
    assert lineage.versions[2].harness.recipe.temperature == 0.9
    assert lineage.versions[2].harness.recipe.kl == 0.1
    assert lineage.versions[2].verdict == "pruned"
    assert set(stages(run)) == {"greedy"}, "every version begins with the first policy"


def test_training_can_go_on_in_a_tree_with_any_factor(tmp_path: Path) -> None:
    changes = {**TREE, "start_from": "parent", "versions": 3}
    run = make_run(tmp_path / "run", Listed(GOOD, KL), (), **changes)
    lineage = run_loop(run)
    assert verdicts(lineage) == ["root", "kept", "pruned"]
    assert [one.patch.factor for one in lineage.versions if one.patch] == [
        "recipe.temperature", "recipe.kl",
    ]  # fmt: skip
    policies = [tmp_path / "run" / "versions" / n / "stage" / "policy" for n in ("00", "01")]
    assert stages(run) == ["greedy"] * 3 + [*map(str, policies)], "two twins of the first, too"
    assert len({one.seed for one in engine_of(run).trained}) == 5


def test_every_version_draws_as_many_rollouts(tmp_path: Path) -> None:
    group = {"factor": "recipe.group", "value": 8}
    run = make_run(tmp_path / "run", Listed(group), **{**TREE, "versions": 2})
    run_loop(run)
    counts = {one.recipe.steps * one.recipe.tasks * one.recipe.group
              for one in engine_of(run).trained}  # fmt: skip
    assert counts == {run.plan.rollouts}
    assert {one.recipe.steps for one in engine_of(run).trained} == {2, 1}


def test_a_better_score_for_another_reason_is_pruned(tmp_path: Path) -> None:
    wrong = temperature(0.9, metric="reward", direction="down")
    lineage = run_loop(make_run(tmp_path / "run", Listed(wrong), **{**TREE, "versions": 2}))
    assert lineage.versions[1].verdict == "pruned"
    assert "not for the stated reason" in lineage.versions[1].words


def test_what_cannot_be_tried_is_refused_and_recorded(tmp_path: Path) -> None:
    listed = Listed(
        {"factor": "recipe.steps", "value": 9},
        {"factor": "reward", "value": "no_such_component"},
        {"factor": "knobs", "value": 7},
        {"factor": "recipe.loss", "value": "cispo"},
        temperature(1.0),
        GOOD,
    )
    lineage = run_loop(make_run(tmp_path / "run", listed, **{**TREE, "versions": 2}))
    assert verdicts(lineage) == ["root", "kept"]
    tests = lineage.generations[1].tests
    assert tests
    refused = [one.refused for one in tests.tried if one.refused]
    assert len(refused) == 5
    for part in ("recipe.steps", "no_such_component", "knobs", "cispo", "changes nothing"):
        assert any(part in words for words in refused), part


def test_factors_that_a_plan_does_not_name_stay_as_they_are(tmp_path: Path) -> None:
    changes = {**TREE, "versions": 2, "factors": ["recipe.kl"]}
    lineage = run_loop(make_run(tmp_path / "run", Listed(GOOD, KL), **changes))
    assert [one.patch.factor for one in lineage.versions if one.patch] == ["recipe.kl"]


def test_a_backtest_refuses_before_anything_is_trained(tmp_path: Path) -> None:
    brevity = {"factor": "reward", "value": "0 - tokens"}
    run = make_run(tmp_path / "run", Listed(brevity, GOOD), **{**TREE, "versions": 2})
    lineage = run_loop(run)
    assert verdicts(lineage) == ["root", "kept"]
    tests = lineage.generations[1].tests
    assert tests
    assert tests.tried[0].refused.startswith("rejected by its backtest: ")
    assert tests.tried[0].backtest
    assert not tests.tried[1].refused


def test_knobs_that_make_no_tasks_are_refused(tmp_path: Path) -> None:
    tight = {"detour.min": 2, "detour.max": 1}
    start = {"size3.data_ratio": 1.0, "agents2.share": 1.0, "detour.min": 1, "detour.max": 4}
    knobs = {"factor": "knobs", "value": tight}
    changes = {**TREE, "versions": 2, "knobs": start}
    lineage = run_loop(make_run(tmp_path / "run", Listed(knobs, GOOD), **changes))
    assert verdicts(lineage) == ["root", "kept"]
    tests = lineage.generations[1].tests
    assert tests
    assert "its tasks cannot be made: these knobs" in tests.tried[0].refused


class Noting(Listed):
    """Remembers what people asked for."""

    def __init__(self, *patches: dict[str, Any]) -> None:
        super().__init__(*patches)
        self.notes: list[str] = []

    def propose(self, view: View, seed: int) -> list[Patch]:
        self.notes.append(view.note)
        return super().propose(view, seed)


def test_what_people_say_at_a_backtest_and_at_completion_counts(tmp_path: Path) -> None:
    engineer = Noting(SAME, BAD, GOOD)
    changes = {**TREE, "versions": 2, "approval": ["backtest", "completion"]}
    run = make_run(tmp_path / "run", engineer, **changes)
    asked = answering(
        run,
        [("approve", "mind the root"), ("revise", "not colder"), ("approve", ""), ("approve", "")],
    )
    lineage = run_loop(run)
    assert [gate for _, gate in asked] == ["completion", "backtest", "backtest", "completion"]
    assert verdicts(lineage) == ["root", "pruned"], "nothing of what was sent back was trained"
    assert engineer.notes == ["mind the root", "not colder"]


class Asking(Listed):
    """Proposes a question besides its patches."""

    def propose(self, view: View, seed: int) -> list[Any]:
        sql = "SELECT version, avg(reward) AS value, count(*) AS n FROM rollouts GROUP BY version"
        own = {"name": "paid", "question": "What does it earn?", "layer": "score", "sql": sql}
        (first,) = super().propose(view, seed)
        return [Proposal(patch=first, diagnostics=(own,))]


def test_what_engineers_ask_waits_for_its_trial(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Asking(SAME), **{**TREE, "versions": 2})
    run_loop(run)
    assert [one.name for one in proposed(run)] == ["paid"]


def test_a_run_goes_on_from_its_own_weights_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = {**TREE, "versions": 1}
    run_loop(make_run(tmp_path / "run", Listed(), **alone))
    monkeypatch.setattr(begin, "code_hash", lambda: "another")
    said: list[str] = []
    again = make_run(tmp_path / "run", Listed(), **alone)
    again.say = said.append
    run_loop(again)
    assert any("the code has changed" in line for line in said)
    monkeypatch.setattr(begin, "weights_of", lambda policy: "another")
    with pytest.raises(UserError, match="not those that this run began with"):
        run_loop(make_run(tmp_path / "run", Listed(), **alone))


def test_nothing_is_judged_while_a_blocking_question_cannot_be_asked() -> None:
    questions = load_suite().diagnostics
    fine = Finding(diagnostic=questions["score_change"], error="out of memory")
    Health([], [fine], []).check()
    bad = Finding(diagnostic=questions["contamination"], error="out of memory")
    with pytest.raises(EvidenceError, match="'contamination' blocks promotion and cannot be asked"):
        Health([], [fine, bad], []).check()


def test_nothing_left_to_try_ends_the_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Listed(BAD), **TREE)
    best = run_loop(run).best
    assert best
    assert best.version is None
    assert run.ledger.state() == "stopped"


@pytest.mark.parametrize("plan", [{}, TREE])
def test_an_engineer_that_breaks_is_recorded(tmp_path: Path, plan: dict[str, Any]) -> None:
    class Broken:
        name = "broken"

        def propose(self, view: View, seed: int) -> list[Proposal]:
            raise RuntimeError("no idea")

    lineage = run_loop(make_run(tmp_path / "run", Broken(), ("greedy", "greedy"), **plan))
    assert "no idea" in lineage.generations[1].proposed[0].proposals["broken"][0].failure


def test_siblings_that_are_kept_are_merged(tmp_path: Path) -> None:
    changes = {**TREE, "width": 2, "versions": 3}
    run = make_run(tmp_path / "run", Listed(GOOD, KL, SAME), **changes)
    lineage = run_loop(run)
    assert [one.parent for one in lineage.versions] == [None, 0, 0]
    node = lineage.nodes[2]
    node.version = node.version.model_copy(update={"verdict": "kept"})
    with run.ledger.writing():
        assert merge(run, 2) == [], "it was not better beyond noise"
    assert node.gate
    sure = node.gate.change.model_copy(update={"low": 0.01})
    node.gate = node.gate.model_copy(update={"change": sure})
    with run.ledger.writing():
        (united,) = merge(run, 2)
    assert united.merged == (1, 2)
    assert united.parent == 1
    assert (united.harness.recipe.temperature, united.harness.recipe.kl) == (0.9, 0.1)
    with run.ledger.writing():
        assert merge(run, 3) == []


def test_after_failures_the_measurement_is_checked_and_people_are_asked(tmp_path: Path) -> None:
    patches = [{"factor": "recipe.kl", "value": value} for value in (0.1, 0.2, 0.3, 0.4)]
    target = {"dev": 24, "gate": 60, "knobs": SMALL, "temperature": 1.0}
    changes = {**TREE, "versions": 5, "target": target, "learn": False}
    lineage = run_loop(make_run(tmp_path / "run", Listed(*patches), **changes))
    assert lineage.failures == 4
    check = lineage.generations[4].check
    assert check
    assert (check.version, check.spent.rollouts) == (0, 60)
    waiting = make_run(tmp_path / "other", Listed(*patches), asks_after=2, **changes)
    asked = answering(waiting, [("abort", "enough")])
    lineage = run_loop(waiting)
    assert len(asked) == 1
    assert waiting.ledger.state() == "stopped"
    assert len(lineage.nodes) == 3


def test_after_many_failures_it_rolls_back(tmp_path: Path) -> None:
    patches = [GOOD, *({"factor": "recipe.kl", "value": 0.1 * n} for n in range(1, 8))]
    run = make_run(tmp_path / "run", Listed(*patches), **{**TREE, "versions": 9, "learn": False})
    lineage = run_loop(run)
    assert [one.parent for one in lineage.versions] == [None, 0, *[1] * 6, 0]


def test_the_test_split_is_opened_once(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Listed(GOOD), **{**TREE, "versions": 2})
    with pytest.raises(UserError, match="opened once"):
        final(run.ledger, run.gauge, 40)
    run_loop(run)
    found = final(run.ledger, run.gauge, 40)
    assert found.change["valid"].mean > 0
    assert found.last.rates["valid"].n == 40
    assert found.root
    assert found.root.policy == run.lineage.policy(0)
    gained = found.last.rates["valid"].rate - found.root.rates["valid"].rate
    assert found.beyond["valid"].mean == pytest.approx(gained)
    assert final(run.ledger, run.gauge, 80) == found
    assert run.ledger.state() == "done"


def test_a_tree_ends_with_no_training_unless_a_version_is_better(tmp_path: Path) -> None:
    """The root unlearns; its child makes up for that and is kept, which is no gain over nothing."""
    changes = {**TREE, "versions": 2, "policy": "prioritised"}
    run = make_run(tmp_path / "run", Listed(GOOD), **changes)
    lineage = run_loop(run)
    assert verdicts(lineage) == ["root", "kept"]
    assert lineage.front
    assert lineage.front.number == 1
    best = lineage.best
    assert best
    assert (best.version, lineage.policy(best.version)) == (None, "prioritised")
    assert best.words.startswith("no version is better than no training: ")
    assert "version 1, the strongest" in best.words
    gates = [node.gate for node in lineage.nodes if node.gate]
    assert [gate.base.better for gate in gates] == [False, False]
    assert gates[0].base.words.startswith("worse: ")
    assert gates[1].base.change.n == 60
    end = run.ledger.last()
    assert (end.kind, end.payload["policy"], end.payload["version"]) == (
        "done", "prioritised", None,
    )  # fmt: skip
    found = final(run.ledger, run.gauge, 40)
    assert found.words == best.words
    assert found.first == found.last
    assert found.beyond["valid"].mean > 0
    assert found.spent.rollouts == 80
    measured = sorted(one.name for one in (tmp_path / "run" / "final").iterdir())
    assert measured == ["first", "root"]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A tree that is its root, never killed."""
    folder = tmp_path_factory.mktemp("trees") / "whole"
    run = make_run(folder, Listed(), **{**TREE, "versions": 1})
    run_loop(run)
    return run


@pytest.mark.parametrize("phase", ["base", "version", "noise", "gate"])
def test_a_tree_killed_while_it_is_planted_comes_to_the_same(
    tmp_path: Path, planted: Run, phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed with a phase done and not yet recorded, which is the worst instant."""
    record = Ledger.append

    def die(self: Ledger, kind: str, payload: Any, **facts: Any) -> Any:
        if kind == "phase" and facts["phase"] == phase:
            raise KeyboardInterrupt
        return record(self, kind, payload, **facts)

    alone = {**TREE, "versions": 1}
    killed = make_run(tmp_path / "killed", Listed(), **alone)
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "append", die)
        with pytest.raises(KeyboardInterrupt):
            run_loop(killed)
    killed.ledger.close()
    resumed = make_run(tmp_path / "killed", Listed(), **alone)
    assert facts(run_loop(resumed)) == facts(planted.lineage)
    names = [[e.phase for e in run.ledger.events("phase")] for run in (planted, resumed)]
    assert names[0] == names[1]
    assert names[0][:3] == ["begin", "base", "version"]


def test_a_used_up_budget_ends_a_tree_and_it_stays_what_it_is(tmp_path: Path) -> None:
    changes = {**TREE, "budget": {"rollouts": 616}}
    run = make_run(tmp_path / "run", Listed(SAME, GOOD, BAD), **changes)
    lineage = run_loop(run)
    assert run.ledger.state() == "stopped"
    assert verdicts(lineage) == ["root", "pruned", "kept"]
    again = make_run(tmp_path / "run", Listed(SAME, GOOD, BAD), **changes)
    assert facts(run_loop(again)) == facts(lineage)
    assert len(again.ledger.events("stopped")) == 1


# Controls.


def test_a_control_tells_what_the_patch_did(tmp_path: Path) -> None:
    """Training alone makes it better here, and the patch makes it worse than training alone."""

    class Learning(Pretended):
        def train(
            self, stage: Stage, tasks: Sequence[Task], observe: Observe | None = None
        ) -> Result:
            number = int(stage.folder.parent.name)
            bad = stage.recipe.temperature != 1.0
            self.scripts = ["random" if bad else "greedy" if not number else "prioritised"] * 9
            return super().train(stage, tasks, observe)

    changes = {**TREE, "start_from": "parent", "accept": "no worse", "versions": 2,
               "control": True}  # fmt: skip
    run = with_engine(make_run(tmp_path / "run", Listed(BAD), ("greedy",), **changes), Learning())
    lineage = run_loop(run)
    assert [one.control for one in lineage.versions] == [False, True, False]
    assert verdicts(lineage) == ["kept", "kept", "reverted"]
    control, patched = lineage.nodes[1:]
    assert control.version.patch is None
    assert control.version.parent == patched.version.parent == 0
    assert patched.gate
    assert patched.gate.against == 1
    assert patched.gate.change.high < 0
    assert "against control 1" in patched.version.words
    assert lineage.front
    assert lineage.front.number == 1, "the better of the two goes on"
    assert lineage.control_rollouts == 32
    seeds = {one.seed for one in engine_of(run).trained[1:]}
    assert len(seeds) == 1, "the same tasks for both"


def test_where_versions_begin_again_both_are_trained_anew(tmp_path: Path) -> None:
    changes = {**TREE, "versions": 2, "control": True}
    run = make_run(tmp_path / "run", Listed(GOOD), **changes)
    lineage = run_loop(run)
    assert verdicts(lineage) == ["root", "pruned", "kept"]
    assert lineage.nodes[2].gate
    assert lineage.nodes[2].gate.against == 1
    first, _, _, control, patched = engine_of(run).trained
    assert first.seed != control.seed == patched.seed


# Run folders like any folder.


def test_a_run_can_be_moved_and_goes_on(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", scripts=("greedy", "prioritised", "prioritised"))
    expected = facts(run_loop(run))
    part = make_run(tmp_path / "part", scripts=("greedy", "prioritised", "prioritised"))
    plain = part.work

    def killed(folders: Sequence[Path]) -> None:
        if folders[0].name == "01":
            raise Killed
        plain(folders)

    part.work = killed
    with pytest.raises(Killed):
        run_loop(part)
    part.ledger.close()
    shutil.move(tmp_path / "part", tmp_path / "elsewhere" / "moved")
    run.ledger.close()
    shutil.rmtree(tmp_path / "run")
    assert facts(reopened(tmp_path / "elsewhere" / "moved")) == expected


def reopened(folder: Path) -> Lineage:
    """The end of a run with the plan that its folder was begun with."""
    ledger = Ledger.open(folder)
    gauge = Gauge(plan_of(ledger), LAKE, load)
    work = one_by_one(Pretended(("greedy", "prioritised", "prioritised")), gauge, None)
    return run_loop(Run(plan_of(ledger), ledger, gauge, lambda _: {"saying": Saying}, work))


def test_a_copy_does_not_need_the_original(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", scripts=("prioritised",))
    run_loop(run)
    run.ledger.close()
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    shutil.rmtree(tmp_path / "run")
    with Ledger.open(tmp_path / "copy") as ledger:
        from coevolve.store.paths import Paths

        gauge = Gauge(plan_of(ledger), LAKE, load, Paths(tmp_path / "copy"))
        found = final(ledger, gauge, 40)
    assert found.last.policy == "run:versions/00/stage/policy"
    assert found.change["valid"].mean > 0


def test_a_finished_run_can_be_extended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    run = make_run(folder, scripts=("greedy", "greedy"))
    before = run_loop(run)
    assert run.ledger.state() == "done"
    run.ledger.close()
    with pytest.raises(UserError, match="planned with 2 already"):
        reopen(folder, engine=Pretended(), more=More(versions=1))

    def changed(*_: object) -> Gauge:
        raise UserError("the data set has other rows now")

    with pytest.raises(UserError, match="give objects with a `name`"):
        reopen(folder, engine=Pretended(), more=More(versions=3), own=Own(["aim"]))  # type: ignore[list-item]
    with pytest.raises(UserError, match=r"coevolve\.Plan\(domain='lake'\)"):
        reopen(folder, engine=Pretended(), more=More(versions=3), own=Own(domain="lake"))  # type: ignore[arg-type]
    with monkeypatch.context() as patched:
        patched.setattr("coevolve.loop.create.gauge_of", changed)
        with pytest.raises(UserError, match="other rows"):
            reopen(folder, engine=Pretended(), more=More(versions=3))
    with Ledger.open(folder) as ledger:
        assert plan_of(ledger).versions == 2, "what is refused changes nothing"
    more = reopen(folder, engine=Pretended(("greedy",) * 3), more=More(versions=3))
    assert more.plan.versions == 3
    more.ledger.close()
    with Ledger.open(folder) as ledger:
        assert plan_of(ledger).versions == 3
    assert len(before.nodes) == 2


def test_a_finished_run_says_that_nothing_is_left_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", scripts=("greedy", "greedy"))
    finish(run, view_of(as_json=True), as_json=True)
    assert "nothing is left" not in capsys.readouterr().err
    again = with_engine(run, Pretended())
    finish(again, view_of(as_json=True), as_json=True)
    said = capsys.readouterr()
    assert "nothing is left to do: all 2 versions are trained and judged" in said.err
    assert f"coevolve resume {run.ledger.folder} --versions 3\n" in said.err
    assert json.loads(said.out)["best"] is not None


def test_what_is_written_into_a_pipe_is_folded_and_not_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    engineer = Saying()
    engineer.name = "a very long name " * 20 + "x" * 90
    finish(make_run(tmp_path / "run", engineer, ("greedy",) * 2), view_of(as_json=False), False)
    table = [line for line in capsys.readouterr().out.splitlines() if "│" in line]
    assert max(map(len, table)) < 200
    changes = "".join(line.split("│")[3].strip() for line in table)
    assert engineer.name.replace(" ", "") in changes.replace(" ", "")


@pytest.mark.parametrize(
    ("end", "why"), [(KeyError("slip"), "KeyError: 'slip'"), (KeyboardInterrupt(), "interrupted")]
)
def test_a_run_with_ones_own_engineer_goes_on_in_python(
    tmp_path: Path, end: BaseException, why: str
) -> None:
    folder = tmp_path / "run"
    own = Own([Impossible()])
    run = create(own.named(make_plan({}, "test")), folder, engine=Pretended(), own=own)
    with run.ledger.writing():
        run.ledger.note_end(end)
    run.ledger.close()
    said = CliRunner().invoke(app, ["status", str(folder)]).stdout
    assert f"because      {why}" in said
    assert f"next         in Python, coevolve.resume('{folder}', engineers=[...])" in said
    with pytest.raises(UserError, match=r"resume it there: coevolve\.resume\("):
        reopen(folder, engine=Pretended())


def test_versions_that_come_may_get_more_steps(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run = make_run(folder, scripts=("greedy", "greedy"))
    run_loop(run)
    run.ledger.close()
    more = reopen(folder, engine=Pretended(), more=More(versions=3, steps=9))
    assert (more.plan.versions, more.plan.recipe.steps, more.plan.recipe.tasks) == (3, 9, 4)
    more.ledger.close()


def test_a_target_may_be_a_file_of_tasks(tmp_path: Path) -> None:
    """Its tasks are dealt out by content; the run keeps a copy of the file, and can be moved."""
    file, folder = tmp_path / "mine.jsonl", tmp_path / "run"
    every = [
        task for split in Split for task in LAKE.generate(LAKE.space.parse(SMALL), 60, 0, split)
    ]
    file.write_text("".join(task.model_dump_json() + "\n" for task in every))
    plan = make_plan({"policy": "greedy", "target": {"tasks": str(file), "dev": 20}}, "test")
    with create(plan, folder, engine=Pretended()).ledger as ledger:
        assert plan_of(ledger).target.tasks == "run:target.jsonl"
    file.unlink()
    folder.rename(tmp_path / "moved")
    run = reopen(tmp_path / "moved", engine=Pretended())
    target = run.gauge.target
    parts = {split: target.held_out(split, 1_000) for split in (Split.DEV, Split.GATE, Split.TEST)}
    ids = [task.id for part in parts.values() for task in part]
    assert (
        len(ids) == len(set(ids)) == len({one.id for one in every if one.split is not Split.TRAIN})
    )
    assert len(run.gauge.dev) == 20
    assert target.held_out(Split.DEV, 20) == run.gauge.dev
    run.ledger.close()


def test_a_target_that_is_missing_or_too_small_is_named(tmp_path: Path) -> None:
    nowhere = make_plan({"policy": "greedy", "target": {"tasks": "no/such.jsonl"}}, "test")
    with pytest.raises(UserError, match="cannot read it"):
        create(nowhere, tmp_path / "run", engine=Pretended())
    suite = make_plan({"policy": "greedy", "target": {"tasks": "suite:benchmrk"}}, "test")
    with pytest.raises(UserError, match="benchmark"):
        create(suite, tmp_path / "run", engine=Pretended())
    with pytest.raises(UserError, match="give one of them"):
        make_plan({"target": {"tasks": "suite:benchmark", "knobs": SMALL}}, "test")
    few = tmp_path / "few.jsonl"
    tasks = LAKE.generate(LAKE.space.parse(SMALL), 5, 0, Split.DEV)
    few.write_text("".join(task.model_dump_json() + "\n" for task in tasks))
    plan = make_plan({"policy": "greedy", "target": {"tasks": str(few)}}, "test")
    run = create(plan, tmp_path / "other", engine=Pretended())
    with run.ledger, pytest.raises(UserError, match="are left for dev"):
        run.gauge.dev  # noqa: B018


def test_an_address_without_an_answer_is_told_before_anything_is_trained(tmp_path: Path) -> None:
    pytest.importorskip("openai", reason="addresses need the extra `endpoint`")
    plan = make_plan({"policy": "greedy", "engineers": ["http://127.0.0.1:1/v1#m"]}, "test")
    with pytest.raises(PolicyError, match=r"nothing answers at http://127\.0\.0\.1:1/v1, where"):
        create(plan, tmp_path / "run", engine=Pretended())
    assert not (tmp_path / "run").exists()


def test_a_run_does_not_go_on_without_its_only_engineer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openai", reason="addresses need the extra `endpoint`")
    monkeypatch.setattr("coevolve.loop.create.reach", lambda _: None)
    for count in (1, 2):
        engineers = ["http://127.0.0.1:1/v1#m", "aim"][:count]
        plan = make_plan({"policy": "greedy", "engineers": engineers}, "test")
        create(plan, tmp_path / str(count), engine=Pretended()).ledger.close()
    monkeypatch.undo()
    with pytest.raises(PolicyError, match="nothing answers"):
        reopen(tmp_path / "1", engine=Pretended())
    reopen(tmp_path / "2", engine=Pretended())  # of two the other goes on


def test_a_run_of_before_is_refused_in_one_line(tmp_path: Path) -> None:
    from coevolve.core.errors import LedgerError

    Ledger.create(tmp_path / "run", {"rounds": 3, "measured": {}}).close()
    with (
        Ledger.open(tmp_path / "run") as ledger,
        pytest.raises(LedgerError, match="was begun by an older coevolve"),
    ):
        plan_of(ledger)


def test_small_is_small() -> None:
    """What the tests above take for granted."""
    assert LAKE.space.parse(SMALL)["size3.hole_ratio"] == 0.2
