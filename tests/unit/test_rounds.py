"""The rounds, with scripts for policies: what is kept, what is reverted, and what is proposed."""

import time
from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coevolve.core.errors import KnobError
from coevolve.core.task import Task
from coevolve.dashboard.levels import incumbent_after, knobs_by_round
from coevolve.dashboard.record import read_record
from coevolve.domains.registry import get_domain
from coevolve.engineers.base import Edit, Proposal, View
from coevolve.engineers.signals import standing as in_force
from coevolve.engines.base import Observe, Result, Stage
from coevolve.evolution import redesigning
from coevolve.evolution.deciding import first_knobs
from coevolve.evolution.measuring import Measuring
from coevolve.evolution.proposing import candidates
from coevolve.evolution.rounds import Rounds, Standing
from coevolve.evolution.training import seed_of
from coevolve.harness.experiment import make_experiment
from coevolve.ledger import approval
from coevolve.ledger.budget import spent_so_far
from coevolve.ledger.ledger import Ledger
from coevolve.policies.scripted import ScriptedPolicy

LAKE = get_domain("lake")
SMALL = {"size3.data_ratio": 0.5, "size4.data_ratio": 0.5, "agents3.share": 1.0}


BEYOND = {"rollouts": 300}


class Pretended:
    """An engine whose rounds end with these policies, one after the other."""

    def __init__(self, *policies: str) -> None:
        self.policies, self.stages = policies, []  # type: ignore[var-annotated]

    def train(self, stage: Stage, tasks: Sequence[Task], observe: Observe | None = None) -> Result:
        self.stages.append((stage, list(tasks)))
        policy = self.policies[int(stage.folder.parent.name)]
        return Result(policy=policy, steps=1, rollouts=32)

    def check(self, model: str, scripts: Collection[str]) -> None:
        pass


class Raising:
    """Wants more holes everywhere."""

    name = "raising"

    def propose(self, view: View, seed: int) -> list[Proposal]:
        edits = tuple(Edit(knob=f"size{size}.hole_ratio", action="raise") for size in (3, 4))
        words = f"round {view.last.number}: {view.last.verdict} {view.note}"
        return [Proposal(edits=edits, explanation=words), Proposal(failure="had no second idea")]


def make(folder: Path, *policies: str, **changes: Any) -> tuple[Rounds, Pretended]:
    experiment = make_experiment(
        {
            "name": "test", "policy": "greedy", "rounds": 3, "start": "default", "knobs": SMALL,
            "recipe": {"steps": 2, "tasks": 4},
            "measured": {"dev": 24, "gate": 60, "knobs": SMALL},
            "backtest": {"tasks": 8, "samples": 2},
            **changes,
        },
        "test",
    )  # fmt: skip
    engine = Pretended(*policies)
    measuring = Measuring(
        experiment, LAKE, lambda name: (ScriptedPolicy(LAKE, Path(name).name), "")
    )
    ledger = Ledger.create(folder, experiment.model_dump(mode="json"))
    engineers = lambda checkpoint: {"raising": Raising}  # noqa: E731
    return Rounds(experiment, ledger, LAKE, engine, engineers, measuring), engine


def test_better_is_kept_worse_is_reverted(tmp_path: Path) -> None:
    rounds, engine = make(tmp_path / "run", "prioritised", "random", "prioritised")
    standing = rounds.run()
    assert standing.policy == "prioritised"
    assert [past.verdict for past in standing.history] == ["kept", "reverted", "kept"]
    starts = [stage.model for stage, _ in engine.stages]
    assert starts == ["greedy", "prioritised", "prioritised"]
    assert rounds.ledger.state() == "done"


def test_reverted_twice_it_goes_back_to_the_first_knobs(tmp_path: Path) -> None:
    rounds, engine = make(
        tmp_path / "run", "random", "random", "prioritised", policy="prioritised",
        backtest={"on": False},
    )  # fmt: skip
    history = rounds.run().history
    assert [past.verdict for past in history] == ["reverted", "reverted", "kept"]
    holes = [past.knobs["size3.hole_ratio"] for past in history]
    assert holes[0] < holes[1] == holes[2]
    assert [stage.model for stage, _ in engine.stages] == ["prioritised"] * 3


@pytest.mark.parametrize("after", ["greedy", "prioritised"])
def test_knobs_on_which_training_was_stopped_go_back(tmp_path: Path, after: str) -> None:
    """What was learned before that is for the gate to judge, as ever."""
    rounds, engine = make(tmp_path / "run", "greedy", after, after, backtest={"on": False})
    plain = engine.train

    def stopped(stage: Stage, tasks: Sequence[Task], observe: Observe | None = None) -> Result:
        found = plain(stage, tasks, observe)
        dead = int(stage.folder.parent.name) == 1
        return found.model_copy(update={"stopped": "all groups are dead" if dead else None})

    engine.train = stopped  # type: ignore[method-assign]
    standing = rounds.run()
    assert standing.policy == after
    assert [stage.model for stage, _ in engine.stages] == ["greedy", "greedy", after]
    assert [past.verdict for past in standing.history] == ["kept", "stopped", "kept"]
    seen = View(LAKE.space, standing.knobs, standing.history[:2], {})
    assert in_force(seen).number == 1, "its checkpoint is the one to look at"
    said = rounds.ledger.phase(1, "gate", dict)["words"]
    assert said.startswith("kept: ")
    assert said.endswith("so its knobs are not kept: all groups are dead")
    holes = [past.knobs["size3.hole_ratio"] for past in standing.history]
    assert holes[0] < holes[1] == holes[2]
    rounds.ledger.close()
    record = read_record(tmp_path / "run")
    assert incumbent_after(record, knobs_by_round(record), 1)["size3.hole_ratio"] == holes[0]


class Impossible:
    """Wants boards of which there are none, although each knob could be so."""

    def propose(self, view: View, seed: int) -> list[Proposal]:
        return [Proposal(knobs={"detour.min": 2, "detour.max": 1}, explanation="trust me")]


@pytest.mark.parametrize("probed", [True, False])
def test_knobs_that_make_no_tasks_are_refused_and_the_run_goes_on(
    tmp_path: Path, probed: bool
) -> None:
    tight = {"size3.data_ratio": 1.0, "agents2.share": 1.0, "detour.min": 1, "detour.max": 4}
    rule = {"on": probed, "tasks": 8, "samples": 2}
    rounds, _ = make(tmp_path / "run", "greedy", "greedy", knobs=tight, rounds=2, backtest=rule)
    rounds.engineers = lambda _: {"impossible": Impossible}  # type: ignore[assignment]
    rounds.run()
    assert rounds.ledger.state() == "done"
    chosen = rounds.ledger.phase(0, "backtest", dict)
    assert chosen["chosen"] == "incumbent"
    assert "the tasks of impossible cannot be made: these knobs cannot be met" in chosen["words"]


def test_knobs_that_make_no_tasks_any_more_give_way_to_earlier_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds, _ = make(tmp_path / "run", "greedy", "greedy", "greedy", backtest={"on": False})
    last, plain = seed_of(rounds, 2), redesigning.own_tasks

    def scarce(domain: Any, knobs: Any, recipe: Any, seed: int, lessons: float) -> list[Task]:
        if seed == last and knobs["size3.hole_ratio"] > 0.2:
            raise KnobError("too many holes")
        return plain(domain, knobs, recipe, seed, lessons)

    monkeypatch.setattr(redesigning, "own_tasks", scarce)
    history = rounds.run().history
    holes = [past.knobs["size3.hole_ratio"] for past in history]
    assert holes[0] == holes[2] < holes[1]
    assert [past.engineer for past in history] == ["start", "raising", "start"]
    words = rounds.ledger.phase(1, "backtest", dict)["words"]
    assert "the tasks of raising cannot be made: too many holes" in words
    assert "the knobs of round 0 stand in for the incumbent's: too many holes" in words


def test_what_failed_is_paid_for(tmp_path: Path) -> None:
    class Paid:
        policy = SimpleNamespace(
            usage=SimpleNamespace(prompt_tokens=9, completion_tokens=1, cost=1.0)
        )

        def propose(self, view: View, seed: int) -> list[Proposal]:
            self.policy.usage.cost, self.policy.usage.prompt_tokens = 3.5, 109
            raise OSError("gone")

    rounds, _ = make(tmp_path / "run", "greedy", "greedy", rounds=2)
    rounds.engineers = lambda _: {"paid": Paid}  # type: ignore[assignment]
    rounds.run()
    proposed = rounds.ledger.phase(0, "propose", dict)
    assert proposed["proposals"]["paid"][0]["failure"] == "OSError: gone"
    assert (proposed["spent"]["tokens"], proposed["spent"]["money"]) == (100, 2.5)


def test_seconds_of_a_phase_that_broke_off_are_spent(tmp_path: Path) -> None:
    rounds, engine = make(tmp_path / "run", "greedy", rounds=1)

    def broken(*_: Any) -> Result:
        time.sleep(0.3)
        raise KeyboardInterrupt

    engine.train = broken  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        rounds.run()
    (stopped,) = rounds.ledger.events("stopped")
    assert stopped.payload["spent"]["seconds"] >= 0.3
    assert spent_so_far(rounds.ledger).seconds >= 0.3


def test_named_shares_are_all_there_is_of_their_group(tmp_path: Path) -> None:
    for start in ("default", "random"):
        knobs = first_knobs(make(tmp_path / start, start=start)[0].experiment, LAKE.space)
        assert {n: v for n, v in knobs.items() if n.endswith("data_ratio") and v} == {
            "size3.data_ratio": 0.5, "size4.data_ratio": 0.5,
        }  # fmt: skip


def test_engineers_see_their_own_words_and_nothing_of_the_gate(tmp_path: Path) -> None:
    rounds, _ = make(
        tmp_path / "run", "prioritised", "prioritised", "prioritised", backtest={"on": False}
    )
    history = rounds.run().history
    assert [past.explanation for past in history] == ["", "round 0: kept ", "round 1: kept "]


def test_switched_off_nothing_is_reverted(tmp_path: Path) -> None:
    rounds, engine = make(tmp_path / "run", "prioritised", "random", "random", gate={"on": False})
    assert rounds.run().policy == "random"
    assert [stage.model for stage, _ in engine.stages][2] == "random"


def test_proposals_are_recorded_and_stay_within_reach(tmp_path: Path) -> None:
    rounds, _ = make(
        tmp_path / "run", "greedy", "greedy", "greedy", backtest={"on": False}, reach=0.1
    )
    said: list[str] = []
    rounds.say = said.append
    standing = rounds.run()
    holes = [past.knobs["size3.hole_ratio"] for past in standing.history]
    assert holes[0] < holes[1] < holes[2]
    assert max(after - before for before, after in pairwise(holes)) <= 0.05 + 1e-9
    proposed = rounds.ledger.phase(0, "propose", dict)
    assert proposed["proposals"]["raising"][1]["failure"] == "had no second idea"
    told = "raising: 1 of 2 proposals cannot be used: had no second idea"
    assert f"round 0: {told}" in said
    assert "round 0: kept" in proposed["proposals"]["raising"][0]["explanation"]
    assert standing.history[1].engineer == "raising"


def test_proposals_of_the_same_knobs_count_once() -> None:
    incumbent = LAKE.space.defaults()
    said = [Proposal(edits=(Edit(knob="size3.hole_ratio", action=action),))
            for action in ("raise", "raise", "lower")]  # fmt: skip
    recorded = [one.model_dump() for one in (*said, Proposal(failure="prose"), Proposal())]
    found = candidates({"proposals": {"one": recorded, "other": recorded}}, incumbent, 0.2)
    assert [one.name for one in found] == ["one", "one"]
    assert found[0].knobs["size3.hole_ratio"] > found[1].knobs["size3.hole_ratio"]


def test_a_spent_budget_ends_a_run_with_what_it_has(tmp_path: Path) -> None:
    rounds, engine = make(
        tmp_path / "run", "prioritised", "prioritised", "prioritised", budget={"rollouts": 210}
    )
    standing = rounds.run()
    assert len(engine.stages) == 2
    assert standing.policy == "prioritised"
    assert rounds.ledger.state() == "stopped"
    reason = rounds.ledger.events("stopped")[0].payload["reason"]
    assert "budget of rollouts is used up: 356 of 210" in reason
    again, _ = make(
        tmp_path / "run", "prioritised", "prioritised", "prioritised", budget={"rollouts": 210}
    )
    assert facts(again.run()) == facts(standing)
    assert len(again.ledger.events("stopped")) == 1


def test_a_budget_that_is_used_up_later_stops_no_round_that_was_begun(tmp_path: Path) -> None:
    # Of two rounds, the second goes beyond it: what began is judged, killed or not.
    whole, _ = make(tmp_path / "whole", "greedy", "prioritised", rounds=2, budget=BEYOND)
    expected = whole.run()
    assert whole.ledger.state() == "done"
    assert facts(make(tmp_path / "whole", rounds=2, budget=BEYOND)[0].run()) == facts(expected)
    assert whole.ledger.state() == "done"
    killed, _ = make(tmp_path / "killed", "greedy", "prioritised", rounds=2, budget=BEYOND)
    measure = killed.measuring.measure

    def measured(policy: str, tasks: Any, folder: Path, *more: Any) -> Any:
        if folder.parts[-2:] == ("01", "gate"):
            raise Killed
        return measure(policy, tasks, folder, *more)

    killed.measuring.measure = measured  # type: ignore[method-assign]
    with pytest.raises(Killed):
        killed.run()
    resumed, _ = make(tmp_path / "killed", rounds=2, budget=BEYOND)
    assert names(resumed.run()) == names(expected)
    assert resumed.ledger.state() == "done"


def test_what_a_person_aborts_at_its_completion_is_kept(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"rounds": 1, "approval": ["completion"]}
    rounds, _ = make(tmp_path / "run", "prioritised", **changes)

    def answering(line: str) -> None:
        if "waiting" in line:
            with Ledger.open(tmp_path / "run") as ledger:
                approval.answer(ledger, "abort", "enough")

    rounds.say = answering
    standing = rounds.run()
    assert standing.policy == "prioritised"
    assert [past.verdict for past in standing.history] == ["kept"]
    assert rounds.ledger.last().payload["policy"] == "prioritised"
    again, lines = make(tmp_path / "run", **changes)[0], []
    again.say = lines.append
    assert facts(again.run()) == facts(standing)
    assert not any("waiting" in line for line in lines)


def test_a_person_can_approve_revise_and_abort(tmp_path: Path) -> None:
    rounds, engine = make(
        tmp_path / "run", "greedy", "greedy", "greedy", approval=["proposal", "completion"]
    )
    answers = iter(
        [
            ("approve", ""),
            ("revise", "fewer holes"),
            ("approve", ""),
            ("approve", "larger boards"),
            ("abort", "no"),
        ]
    )
    asked = []

    def answering(line: str) -> None:
        """A person in another terminal, who answers whatever is asked."""
        if "waiting" in line:
            with Ledger.open(tmp_path / "run") as ledger:
                question = approval.waiting(ledger)
                if question is None:
                    return
                asked.append((question.round, question.gate))
                approval.answer(ledger, *next(answers))  # type: ignore[arg-type]

    rounds.say = answering
    rounds.run()
    assert asked == [
        (0, "completion"), (0, "proposal"), (0, "proposal"), (1, "completion"), (1, "proposal"),
    ]  # fmt: skip
    assert len(engine.stages) == 2
    assert rounds.ledger.state() == "stopped"
    end = rounds.ledger.last()
    assert (end.kind, end.payload["policy"]) == ("stopped", "greedy")
    assert end.payload["reason"] == "aborted at the proposal of round 1: no"
    asked_for = rounds.ledger.events("asked")[1].payload["question"]["proposals"]["raising"]
    assert "size3.hole_ratio: 0.2 → " in asked_for
    second = rounds.ledger.phase(1, "propose", dict)
    assert second["note"] == "larger boards"
    assert "larger boards" in second["proposals"]["raising"][0]["explanation"]
    revised = rounds.ledger.phase(0, "propose-1", dict)["proposals"]["raising"][0]["explanation"]
    assert "fewer holes" in revised


def test_splits_are_what_they_should_be(tmp_path: Path) -> None:
    rounds, engine = make(tmp_path / "run", "greedy", "greedy", "greedy")
    rounds.run()
    assert {task.split for _, tasks in engine.stages for task in tasks} == {"train"}
    assert {task.split for task in rounds.measuring.dev} == {"dev"}
    assert {task.split for task in rounds.measuring.gate} == {"gate"}


class Killed(Exception):
    """Stands for the end of the process."""


def names(standing: Standing) -> tuple[Any, ...]:
    """What was decided, wherever the run is."""
    return standing.policy, dict(standing.knobs), [past.verdict for past in standing.history]


def facts(standing: Standing) -> tuple[Any, ...]:
    return standing.policy, dict(standing.knobs), standing.history


POLICIES = ("prioritised", "random", "waiter")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    """What comes of a run that was never broken off."""
    return facts(make(tmp_path_factory.mktemp("runs") / "whole", *POLICIES)[0].run())


@pytest.mark.parametrize("at", range(1, 12))
def test_broken_off_in_any_phase_it_goes_on_to_the_same_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, expected: tuple[Any, ...]
) -> None:
    plain, done = Ledger.phase, []  # type: ignore[var-annotated]

    def breaking(self: Ledger, number: int, name: str, work: Any) -> Any:
        def once() -> Any:
            found = work()
            done.append((number, name))
            if len(done) == at:
                raise Killed
            return found

        return plain(self, number, name, once)

    monkeypatch.setattr(Ledger, "phase", breaking)
    rounds, _ = make(tmp_path / "broken", *POLICIES)
    with pytest.raises(Killed):
        rounds.run()
    rounds.ledger.close()
    rounds, _ = make(tmp_path / "broken", *POLICIES)
    assert facts(rounds.run()) == expected
