"""Diagnostics that grow from what the clean room finds out, hold, block where there is no clean
room, and are retired when they are wrong."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pretended import LAKE, SMALL, TREE, Listed, Pretended, load, temperature

from coevolve.core.rollout import Message
from coevolve.core.task import Task
from coevolve.diagnostics.suite import load_suite, read_folder
from coevolve.engines.base import Observe, Result, Stage
from coevolve.harness.diagnostic import Diagnostic, Sighting
from coevolve.harness.plan import make_plan
from coevolve.loop.loop import run_loop
from coevolve.loop.run import Run
from coevolve.loop.train import one_by_one
from coevolve.policies.base import Completion, Policy, Prompt, Sampling
from coevolve.policies.script import ScriptedPolicy
from coevolve.store.gauge import Gauge
from coevolve.store.ledger import Ledger
from coevolve.store.lineage import Lineage, plan_of

MARK = "(the key is under the mat)"
LONG = 500
"""Tokens of an answer that was looked up."""


class Leaking:
    """The lake with a mark in its prompts that gives answers away; the clean one is without."""

    name = "lake"

    def __getattr__(self, name: str) -> Any:
        return getattr(LAKE, name)

    def prompt(self, task: Task, style: str = "") -> tuple[Message, ...]:
        return (*LAKE.prompt(task, style), Message(role="user", content=MARK))

    def clean(self) -> Any:
        return LAKE


class Peeking:
    """Solves what is marked, at length, and nothing else; `honest` solves all, at length."""

    def __init__(self, honest: bool) -> None:
        self.name, self.honest = "peeking", honest

    def answer(self, prompts: list[Prompt], sampling: Sampling) -> list[Completion]:
        marked = [self.honest or one.messages[-1].content == MARK for one in prompts]
        told = ScriptedPolicy(LAKE, "oracle").answer(prompts, sampling)
        return [
            Completion(one.text if sees else "no idea", completion_tokens=LONG)
            for one, sees in zip(told, marked, strict=True)
        ]


def loaded(name: str) -> tuple[Policy, str]:
    file = Path(name) / "script"
    script = file.read_text() if file.is_file() else name
    return (Peeking(script == "long"), "") if script in ("peek", "long") else load(name)


class Cheating(Pretended):
    """Whoever trains under a divergence finds the key; one of 9 only learns to be long."""

    def train(self, stage: Stage, tasks: Sequence[Task], observe: Observe | None = None) -> Result:
        found = super().train(stage, tasks, observe)
        if stage.recipe.kl:
            script = "long" if stage.recipe.kl == 9 else "peek"
            (stage.folder / "policy" / "script").write_text(script)
        return found


def kl(value: float) -> dict[str, Any]:
    return {"factor": "recipe.kl", "value": value}


def ran(folder: Path, *patches: dict[str, Any], clean: int = 40) -> Lineage:
    target = {"dev": 24, "gate": 60, "clean": clean, "knobs": SMALL}
    values = {
        "name": folder.name, "policy": "greedy", "knobs": SMALL, **TREE, "target": target,
        "versions": 1 + len(patches), "backtest": {"on": False},
    }  # fmt: skip
    plan = make_plan(values, "test")
    ledger = Ledger.create(folder.resolve(), plan.model_dump(mode="json"))
    gauge = Gauge(plan_of(ledger), Leaking(), loaded)  # type: ignore[arg-type]
    engineer = Listed(*patches)
    work = one_by_one(Cheating(), gauge, None)
    run = Run(plan_of(ledger), ledger, gauge, lambda _: {"listed": lambda: engineer}, work)
    return run_loop(run)


def verdicts(lineage: Lineage) -> list[str | None]:
    return [one.verdict for one in lineage.versions]


def grown_in(folder: Path) -> dict[str, Diagnostic]:
    return {name: one for name, one in read_folder(folder).items() if one.grown}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Lineage]:
    runs = tmp_path_factory.mktemp("runs")
    return runs, ran(runs / "first", temperature(0.9), kl(1), kl(2), kl(3))


def test_what_set_a_cheat_apart_is_asked_and_holds(first: tuple[Path, Lineage]) -> None:
    runs, lineage = first
    assert verdicts(lineage) == ["root", "kept", *["reverted"] * 3]
    learned = [one.learn.grown for one in lineage.generations if one.learn]
    assert not learned[0], "nothing to learn from an honest version"
    sprouted = learned[1]
    assert 1 <= len(sprouted) <= 3
    assert {one.since for one in sprouted} == {3}
    assert not any(one.blocks or one.sightings for one in sprouted)
    own = grown_in(runs / "first" / "diagnostics")
    assert {one.held for one in own.values()} == {2}
    assert all(one.blocks for one in own.values())
    shared = grown_in(runs / "diagnostics")
    assert shared.keys() == own.keys()
    assert {one.since for one in shared.values()} == {0}


@pytest.fixture
def runs(first: tuple[Path, Lineage], tmp_path: Path) -> Path:
    """A folder of runs with what the first has shared."""
    shutil.copytree(first[0] / "diagnostics", tmp_path / "diagnostics")
    return tmp_path


def test_it_blocks_where_there_is_no_clean_room(runs: Path) -> None:
    lineage = ran(runs / "second", temperature(0.9), kl(4), clean=0)
    assert verdicts(lineage) == ["root", "kept", "reverted"]
    gate = lineage.nodes[2].gate
    assert gate
    assert {one.diagnostic for one in gate.blocking} <= grown_in(runs / "diagnostics").keys()
    assert "not valid" in gate.words


def test_one_that_accuses_an_honest_version_is_retired(runs: Path) -> None:
    lineage = ran(runs / "third", temperature(0.9), kl(9))
    assert verdicts(lineage) == ["root", "kept", "kept"], "the clean room decides"
    shared = grown_in(runs / "diagnostics")
    assert all(one.retired and not one.blocks for one in shared.values())
    suite = load_suite(runs / "third")
    assert not [one for one in suite.of(["lake"]) if one.grown]
    last = ran(runs / "fourth", temperature(0.9), kl(4), clean=0)
    assert verdicts(last)[-1] == "kept", "nobody is left who could know"


def test_the_record_decides_whether_it_may_block() -> None:
    one = Diagnostic(name="q", question="?", layer="behaviour", sql="SELECT 1", grown=True)

    def seen(*pairs: tuple[bool, bool]) -> Diagnostic:
        return one.with_sightings(
            Sighting(run="r", version=n, alarmed=alarmed, honest=honest)
            for n, (alarmed, honest) in enumerate(pairs)
        )

    caught, missed, quiet, wrong = (True, False), (False, False), (False, True), (True, True)
    assert not seen(caught).blocks
    assert seen(caught, caught, quiet).blocks
    assert seen(caught, caught, missed).blocks
    assert seen(missed, missed).retired
    assert seen(caught, caught, caught, wrong).retired
    assert seen(caught, caught).with_sightings(seen(caught, caught).sightings).held == 2
