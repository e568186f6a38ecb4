"""The small policies of the trees on math and code: they write what they read; a run makes its own,
once."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="training needs the extra `train`")

from guessing import GuessingDomain, halve

from coevolve.cluster.compare import on_disk
from coevolve.core.errors import UserError
from coevolve.core.rollout import Message
from coevolve.core.splits import Split
from coevolve.domains.registry import get_domain
from coevolve.domains.simple import Data
from coevolve.engines.base import Stage, order
from coevolve.engines.registry import get_engine
from coevolve.engines.trl.warm import examples
from coevolve.evaluation.attempts import attempts
from coevolve.harness.comparison import load_comparison
from coevolve.harness.plan import load_plan
from coevolve.harness.recipe import Recipe
from coevolve.loop.create import create
from coevolve.loop.small import with_small
from coevolve.pocket.small import ANSWER, make_small
from coevolve.policies.base import Sampling
from coevolve.policies.local import render
from coevolve.policies.models import load
from coevolve.policies.script import ScriptedPolicy


@pytest.mark.parametrize(("name", "style"), [("math", "plain"), ("code", "")])
def test_a_small_policy_reads_and_writes_any_text(name: str, style: str, tmp_path: Path) -> None:
    domain = get_domain(name)
    make_small(domain, domain.space.defaults(), style, tmp_path / "policy", tasks=60)
    loaded = load(str(tmp_path / "policy"), device="cpu")
    tasks = domain.generate(domain.space.defaults(), 20, 7, Split.DEV)
    for text in (*(domain.oracle(task, style) for task in tasks), "12 Äpfel\n\n\t<end", "  7"):
        ids = loaded.tokenizer(text, add_special_tokens=False)["input_ids"]
        assert loaded.tokenizer.decode(ids) == text
    asked = render(loaded.tokenizer, (Message(role="user", content="Compute 31 + 4."),))
    assert asked[-1] == loaded.tokenizer.convert_tokens_to_ids(ANSWER)
    digits = [loaded.tokenizer.decode([one]) for one in asked]
    assert [one for one in digits if one.isdigit()] == ["3", "1", "4"]


class Halved(GuessingDomain):
    players = {"oracle": halve}


def test_a_small_policy_is_shown_whole_dialogues_as_it_will_read_them(tmp_path: Path) -> None:
    domain, knobs = Halved(), Halved.space.defaults()
    make_small(domain, knobs, "", tmp_path / "policy", tasks=40)
    loaded = load(str(tmp_path / "policy"), device="cpu")
    tasks = list(domain.generate(knobs, 6, 7, Split.TRAIN))
    recipe = Recipe(steps=3, tasks=2)
    stage = Stage(kind="warm", model=loaded.name, recipe=recipe, seed=1, folder=tmp_path / "stage")
    rows = examples(stage, tasks, {domain.name: domain}, loaded)
    assert len(rows) == len(tasks)
    player = ScriptedPolicy(domain, "oracle")
    found = {one.task_id: one for one in attempts(domain, player, tasks, Sampling())}

    def ids(text: str) -> list[int]:
        return [
            *loaded.tokenizer(text, add_special_tokens=False)["input_ids"],
            loaded.tokenizer.eos_token_id,
        ]

    for row, place in zip(rows, order(len(tasks), len(rows), stage.seed), strict=True):
        rollout = found[tasks[place].id]
        said = [one.content for one in rollout.messages if one.role == "assistant"]
        assert rollout.outcome.valid
        assert len(said) > 1
        # What evaluation asks with before the last turn, and that turn: the very same tokens.
        assert row["input_ids"] == render(loaded.tokenizer, rollout.messages[:-1]) + ids(said[-1])
        own = [token for token in row["labels"] if token >= 0]
        assert own == [token for text in said for token in ids(text)]


def test_long_dialogues_get_room(tmp_path: Path) -> None:
    class Wordy(Halved):
        def question(self, data: Data) -> str:
            return f"{super().question(data)} {'1' * 1_200}"

    make_small(Wordy(), Wordy.space.defaults(), "", tmp_path / "policy", tasks=1)
    loaded = load(str(tmp_path / "policy"), device="cpu")
    assert loaded.context > 1_024


@pytest.mark.parametrize("name", ["tree-math", "tree-code"])
def test_a_run_makes_its_small_policy_once(name: str, tmp_path: Path) -> None:
    plan = load_plan(name, {"small": {"steps": 2, "tasks": 4}})
    domain, said = get_domain(plan.domain), list[str]()
    made = with_small(plan, domain, tmp_path, get_engine("trl"), None, said.append)
    assert Path(made.policy, "config.json").is_file()
    assert len(said) == 2
    again = with_small(plan, domain, tmp_path, get_engine("trl"), None, said.append)
    assert again.policy == made.policy
    assert len(said) == 2, "it is there already"
    other = load_plan(name, {"small": {"steps": 3, "tasks": 4}})
    apart = with_small(other, domain, tmp_path, get_engine("trl"), None, said.append)
    assert apart.policy != made.policy
    pocket = load_plan("tree")
    assert with_small(pocket, domain, tmp_path, get_engine("trl"), None, said.append) is pocket


def test_another_runs_folder_is_told_before_a_small_policy_is_taught(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"small": {"steps": 2, "tasks": 4}}
    create(load_plan("tree-math", changes), tmp_path / "run").ledger.close()
    made = set((tmp_path / "small").iterdir())
    create(load_plan("tree-math", changes), tmp_path / "run").ledger.close()
    for other in ({"small": {"steps": 3, "tasks": 4}}, {**changes, "versions": 5}):
        with pytest.raises(UserError, match=r"holds another run: .*(policy|versions)"):
            create(load_plan("tree-math", other), tmp_path / "run")
    assert set((tmp_path / "small").iterdir()) == made


def test_all_arms_begin_with_the_same_small_policy(tmp_path: Path) -> None:
    chosen = load_comparison(
        "trees-math", {"plan": {"small": {"steps": 2, "tasks": 4}}}, ["fixed", "tree"]
    )
    said: list[str] = []
    jobs = on_disk(chosen.jobs(), tmp_path, lambda line, left: said.append(line))
    [policy] = {job.plan.policy for job in jobs}
    assert Path(policy, "config.json").is_file()
    [weights] = {job.weights for job in jobs}
    assert weights
    assert len(said) == 2
