"""Wordings: what is refused, what a policy sees, what checkpoints keep, and the backtest."""

from pathlib import Path
from typing import Any

import pytest
from pretended import LAKE, SMALL, TREE, Listed, make_run
from training import lake_tasks, stage

from coevolve.core.errors import UserError
from coevolve.core.splits import Split
from coevolve.domains.registry import get_domain
from coevolve.evaluation.attempts import attempts
from coevolve.evaluation.wording import asked, unsound
from coevolve.harness.harness import Harness
from coevolve.harness.patch import Patch, patched
from coevolve.harness.wording import Wording
from coevolve.loop.loop import run_loop
from coevolve.policies.base import Completion, Lazy, Prompt, Sampling, wording_of
from coevolve.store.stages import stage_rollouts

TASKS = list(LAKE.generate(LAKE.space.parse(SMALL), 6, 1, Split.TRAIN))
COUNTED = """
def prompt(task):
    return f"{task['labels']['agents']} agents:\\n{task['text']}"
"""


def patch(factor: str, value: Any) -> Patch:
    return Patch(factor=factor, value=value, hypothesis="If so, then better.")


@pytest.mark.parametrize(
    ("factor", "value", "why"),
    [
        ("wording.prompt", "Do it well.", "has to have {task} in it"),
        ("wording.prompt", "{task} and {task}", "has to have {task} in it"),
        ("wording.prompt", "def prompt(a, b):\n    return a", "def prompt"),
        ("wording.prompt", "import os\ndef prompt(task):\n    return 1", "imports os"),
        ("wording.system", "x" * 9_000, "8000"),
        ("wording.system", "", "changes nothing"),
    ],
)
def test_what_leaves_the_task_out_is_refused(factor: str, value: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        patched(Harness(), patch(factor, value))


def test_words_are_put_around_the_domains_own() -> None:
    plain = asked(LAKE, TASKS, "", Wording()).prompts
    assert plain == [LAKE.prompt(task) for task in TASKS]
    wording = Wording(system="Be brief.", prompt="Mind the holes.\n{task}")
    for before, after in zip(plain, asked(LAKE, TASKS, "", wording).prompts, strict=True):
        assert (after[0].role, after[0].content) == ("system", "Be brief.")
        assert after[-1].content == f"Mind the holes.\n{before[-1].content}"
    counted = asked(LAKE, TASKS, "", Wording(prompt=COUNTED))
    assert not counted.failures
    for task, messages in zip(TASKS, counted.prompts, strict=True):
        assert messages[-1].content.startswith(f"{task.bucket['agents']} agents:\n")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return 1 / 0", "ZeroDivisionError"),
        ("return 5", "no text"),
        ("return ''", "empty"),
        ("return 'x' * 10**6", "xxx"),
        ("SEEN.append(1); return f'{len(SEEN)}' + task['text']", "gives other words"),
    ],
)
def test_functions_that_fail_are_told_and_the_task_is_asked_plainly(body: str, why: str) -> None:
    code = f"SEEN = []\ndef prompt(task):\n    {body}"
    assert why in unsound(LAKE, TASKS, "", Wording(prompt=code))[0]
    if "SEEN" not in body:
        plain = [LAKE.prompt(task) for task in TASKS]
        assert asked(LAKE, TASKS, "", Wording(prompt=code)).prompts == plain


class Noting:
    """Answers nothing, and remembers what it was asked."""

    name = "noting"

    def __init__(self) -> None:
        self.seen: list[Prompt] = []

    def wording(self, domain: str) -> Wording:
        assert domain == "lake"
        return Wording(system="As taught.")

    def answer(self, prompts: list[Prompt], sampling: Sampling) -> list[Completion]:
        self.seen += prompts
        return [Completion(text="") for _ in prompts]


def test_a_policy_is_asked_as_it_was_taught_unless_other_words_are_tried() -> None:
    own = Noting()
    list(attempts(LAKE, own, TASKS[:1], Sampling()))
    assert own.seen[-1].messages[0].content == "As taught."
    tried = Lazy("noting", lambda: own, Wording(prompt="Now:\n{task}"))
    list(attempts(LAKE, tried, TASKS[:1], Sampling()))
    assert own.seen[-1].messages[0].content == "As taught."
    assert own.seen[-1].messages[-1].content.startswith("Now:\n")


def test_a_checkpoint_keeps_the_words_that_it_was_trained_with(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="training needs the extra `train`")
    from coevolve.engines.trl.engine import TrlEngine
    from coevolve.policies.local import LocalPolicy

    words = {"lake": Wording(prompt="plan {task}")}
    tasks = lake_tasks(4)
    first = TrlEngine().train(stage(tmp_path / "a", wording=words, recipe={"steps": 2}), tasks)
    for one in stage_rollouts(tmp_path / "a", tasks):
        assert one.messages[-2].content.startswith("plan ")
    policy = LocalPolicy(first.policy)
    assert wording_of(policy, "lake") == words["lake"]
    assert wording_of(policy, "math") == Wording()
    short = Sampling(max_tokens=8)
    found = list(attempts(get_domain("lake"), policy, tasks[:1], short, style="cells"))
    assert found[0].messages[0].content.startswith("plan ")
    # Trained on without a word of it, it is asked as before.
    on = stage(tmp_path / "b", model=first.policy, recipe={"steps": 1})
    second = TrlEngine().train(on, tasks)
    assert wording_of(LocalPolicy(second.policy), "lake") == words["lake"]


def test_a_wording_is_tried_on_the_parent_before_it_is_trained(tmp_path: Path) -> None:
    good = {"factor": "wording.prompt", "value": "Mind the holes.\n{task}"}
    bad = {"factor": "wording.prompt", "value": "def prompt(task):\n    return 1 / 0"}
    plan = {**TREE, "versions": 2, "backtest": {"tasks": 8, "samples": 2, "least_alive": 0}}
    lineage = run_loop(make_run(tmp_path / "run", Listed(bad, good), **plan))
    tried = lineage.generations[1].tests.tried
    assert "it fails on 8 tasks: ZeroDivisionError" in tried[0].words
    assert lineage.versions[1].harness.wording.prompt == good["value"]
    assert lineage.generations[1].tests.spent.rollouts > 0
