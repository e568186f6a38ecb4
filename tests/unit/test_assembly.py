"""Putting a run together: what is refused before it begins, and what an engineer may break."""

from pathlib import Path
from typing import Any

import pytest
from arms import Pretended

from coevolve.core.errors import UserError
from coevolve.domains.registry import get_domain
from coevolve.engineers.base import Proposal, View
from coevolve.engineers.model import ModelEngineer
from coevolve.evolution.assembly import asked, create
from coevolve.evolution.proposing import propose
from coevolve.evolution.rounds import Rounds
from coevolve.harness.experiment import make_experiment
from coevolve.ledger.ledger import Ledger
from coevolve.policies.base import Completion, Prompt, Sampling
from coevolve.policies.registry import get_policy

SMALL = {"size3.data_ratio": 0.5, "size4.data_ratio": 0.5}


def made(folder: Path, **changes: Any) -> Rounds:
    values = {
        "policy": "greedy", "rounds": 2, "start": "default", "knobs": SMALL,
        "recipe": {"steps": 2, "tasks": 4}, "measured": {"dev": 8, "gate": 8, "knobs": SMALL},
        "backtest": {"tasks": 4, "samples": 2}, **changes,
    }  # fmt: skip
    return create(make_experiment(values, "test"), folder, Pretended(), lambda _: None, print)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"knobs": {"agent2.share": 1.0}}, "unknown knob 'agent2.share'"),
        ({"knobs": {"size3.hole_ratio": 7}}, "is not a number from 0 to 0.5"),
        ({"knobs": {"size3.data_ratio": 0.5}}, "sum to 0.5"),
        ({"engineers": []}, "needs one"),
        ({"engineers": ["http://127.0.0.1:1/v1"]}, "names no model"),
        ({"engineers": ["models/nothing.gguf"]}, "there is no file"),
        ({"engineers": ["./nowhere/at/all"]}, "no model './nowhere/at/all'"),
        ({"engineers": ["frontir"]}, "did you mean 'frontier'"),
        ({"context": ["X"]}, "unknown context module 'X'"),
        ({"budget": {"money": 2}}, "budget.money = 2, but prices = [0, 0]"),
        ({"backtest": {"most_cut": 0.1}}, "backtest.most_cut = 0.1: only trees of versions"),
    ],
)
def test_what_no_run_can_go_by_is_refused_before_a_folder_is_begun(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError) as error:
        made(tmp_path / "run", **changes)
    assert said in str(error.value)
    assert not (tmp_path / "run").exists()


def test_an_engineer_that_cannot_be_loaded_is_a_recorded_failure(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    rounds = made(tmp_path / "run", engineers=[str(model)])
    rounds.run()
    assert rounds.ledger.state() == "done"
    (said,) = rounds.ledger.phase(0, "propose", dict)["proposals"][str(model)]
    assert "cannot load the model in" in said["failure"]


def test_a_run_does_not_care_where_it_was_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert made(Path("run")).ledger.folder == tmp_path / "run"


class Priced:
    """Writes nothing useful, for money."""

    name = "priced"
    prices = (40_000.0, 25_000.0)

    def answer(self, prompts: list[Prompt], sampling: Sampling) -> list[Completion]:
        return [Completion("no JSON", prompt_tokens=5, completion_tokens=2) for _ in prompts]


class Costly:
    name = "costly"

    def propose(self, view: View, seed: int) -> list[Proposal]:
        return [Proposal(failure="nothing", tokens=3, money=0.5)]


def test_what_engineers_cost_is_counted(tmp_path: Path) -> None:
    rounds = made(tmp_path / "run")
    view = View(rounds.domain.space, rounds.domain.space.defaults(), rounds.run().history, {})
    (said,) = ModelEngineer("priced", Priced(), ("F",), repairs=1).propose(view, 0)
    assert (said.money, said.tokens) == (0.5, 14)
    found = propose(lambda _: {"costly": Costly}, "greedy", view, 0, 5.0)
    assert (found["spent"]["money"], found["spent"]["tokens"]) == (0.5, 3)


def test_prices_reach_a_model_behind_an_address() -> None:
    domain = get_domain("lake")
    policy, _ = get_policy("http://127.0.0.1:1/v1#m", domain, prices=(2.0, 8.0))
    assert policy.prices == (2.0, 8.0)  # type: ignore[attr-defined]


def test_the_form_of_an_answer_is_the_experiments() -> None:
    experiment = make_experiment({"answer": "whole"}, "test")
    engineer = asked("priced", Priced(), experiment)
    assert isinstance(engineer, ModelEngineer)
    assert engineer.answer == "whole"


def test_a_ledger_of_another_run_is_left_alone(tmp_path: Path) -> None:
    made(tmp_path / "run").ledger.close()
    with pytest.raises(UserError, match="holds another run"):
        made(tmp_path / "run", rounds=3)
    with Ledger.open(tmp_path / "run") as ledger:
        assert ledger.config["rounds"] == 2
