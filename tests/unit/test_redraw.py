"""Further groups in place of dead ones: what is learned from, and what it costs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("trl", reason="training needs the extra `train`")

from training import Flat, Guess, Guessing, Looking, Words, lake_tasks, stage

from coevolve.backtests.replay import columns_of
from coevolve.core.errors import UserError
from coevolve.core.rollout import Outcome
from coevolve.core.task import Task
from coevolve.engines.base import Result, order
from coevolve.engines.command import CommandEngine
from coevolve.engines.stage import drawn
from coevolve.engines.trl.engine import TrlEngine
from coevolve.engines.trl.folder import StageFolder
from coevolve.harness.filters import TopFilter
from coevolve.harness.recipe import Recipe
from coevolve.store.shards import read

LAX = {"dead_share": 2, "cut_share": 2, "length_factor": 99, "entropy_share": 0, "drift": 99}
HALF = {"steps": 6, "tasks": 4, "group": 4, "max_tokens": 12, "learning_rate": 1e-6}
"""Of a stage that may draw twenty-four groups."""


class Half(Words):
    """Every second task is beyond anybody."""

    def verify(self, task: Task, text: str, tokens: int | None = None) -> Outcome:
        return (Flat if task.seed % 2 else Words).verify(self, task, text, tokens)


class Hopeless(Guess):
    def outcome(self, text: str, tokens: int | None = None) -> Outcome:
        return Outcome(valid=False, optimal=False, reward=0.0, components={}, failure="other")


class HalfGuessing(Guessing):
    """The same in several turns."""

    def begin(self, task: Task) -> Guess:
        return (Hopeless if task.seed % 2 else Guess)(task.data["word"])


def trained(folder: Path, domain: Words, **changes: Any) -> tuple[Result, list[dict[str, Any]]]:
    """A stage on twenty-four tasks, and its steps."""
    recipe = {**HALF, **changes.pop("recipe", {})}
    own = stage(folder, recipe=recipe, limits=LAX, **changes)
    found = TrlEngine({domain.name: domain}).train(own, domain.tasks(24))
    return found, StageFolder(folder).lines()


def groups_of(folder: Path) -> list[dict[str, list[dict[str, Any]]]]:
    """The rollouts of each step by group, in the order in which they were drawn."""
    rows = read(folder / "rollouts").to_pylist()
    steps: list[dict[str, list[dict[str, Any]]]] = [{} for _ in range(rows[-1]["step"] + 1)]
    for row in rows:
        steps[row["step"]].setdefault(row["group"], []).append(row)
    return steps


def test_what_is_drawn_again_is_paid_for_with_steps(tmp_path: Path) -> None:
    recipe = Recipe(steps=5, tasks=2, group=4, redraw=2)
    assert recipe.rollouts == 40
    assert [recipe.is_over(3, 0, drawn) for drawn in (24, 32, 33, 40)] == [False, False, True, True]
    own = stage(tmp_path, recipe=recipe.model_dump())
    lines = [{"step": 1, "rollouts": 16}, {"step": 2}, {"step": 3, "rollouts": 12}]
    assert drawn(own, lines) == 36
    assert drawn(own.model_copy(update={"kind": "warm"}), [{"step": 1}, {"step": 2}]) == 0


def test_dead_groups_are_not_drawn_again_where_that_cannot_be(tmp_path: Path) -> None:
    recipe = Recipe(tasks=3, group=4, redraw=2)
    recipe.check(1)
    with pytest.raises(UserError, match="redraw = 2 needs generator = local, not vllm"):
        recipe.model_copy(update={"generator": "vllm"}).check(1)
    with pytest.raises(UserError, match="tasks as a multiple of the 2 processes, not 3"):
        recipe.check(2)
    domain = Looking()
    with pytest.raises(UserError, match="redraw = 1: 'looking' works through tools"):
        TrlEngine({domain.name: domain}).train(
            stage(tmp_path / "tools", recipe={"redraw": 1}), domain.tasks(2)
        )
    with pytest.raises(UserError, match="redraw = 1: only the engine trl"):
        CommandEngine("true").train(
            stage(tmp_path / "command", recipe={"redraw": 1}), lake_tasks(2)
        )


@pytest.mark.parametrize("domain", [Half(), HalfGuessing()])
def test_where_half_of_the_tasks_are_dead_steps_learn_from_more_groups(
    tmp_path: Path, domain: Words
) -> None:
    found, lines = trained(tmp_path, domain, recipe={"redraw": 2})
    assert found.steps == len(lines) < 6
    assert 96 - 16 < found.rollouts <= 96
    steps = groups_of(tmp_path)
    assert found.rollouts == sum(line["rollouts"] for line in lines)
    assert found.rollouts == sum(len(group) for step in steps for group in step.values())
    shown, done, at_first = order(24, 24, 0), 0, list[bool]()
    assert found.tokens == lines[-1]["tokens"] == sum(
        row["prompt_tokens"] + row["completion_tokens"]
        for step in steps for group in step.values() for row in group
    )  # fmt: skip
    for number, (step, line) in enumerate(zip(steps, lines, strict=True)):
        # Every group is the next task of the order, and comes after dead ones in as many as 3 goes.
        assert list(step) == [f"{number}/{place}" for place in range(len(step))]
        tasks = [int(group[0]["task_id"].partition("-")[2]) for group in step.values()]
        assert tasks == shown[done : done + len(step)]
        assert [row["sample"] for group in step.values() for row in group] == [0, 1, 2, 3] * len(
            step
        )
        differ = [len({row["shaped"] for row in group}) > 1 for group in step.values()]
        at_first += differ[:4]
        goes, left, room = [differ[:4]], differ[4:], 24 - done - 4
        while left:
            dead = min(goes[-1].count(False), room)
            assert dead
            goes, left, room = [*goes, left[:dead]], left[dead:], room - dead
        assert len(goes) <= 3
        assert all(goes)
        done += len(step)
        rows = [row for group in step.values() for row in group]
        assert line["rollouts"] == len(rows)
        assert line["dead"] == pytest.approx(differ.count(False) / len(differ))
        assert line["live"] == pytest.approx(sum(differ) / 4)
        assert line["reward"] == pytest.approx(np.mean([row["shaped"] for row in rows]), abs=1e-6)
        assert line["valid"] == pytest.approx(np.mean([row["valid"] for row in rows]), abs=1e-6)
    assert np.mean([line["live"] for line in lines]) > np.mean(at_first) + 0.2


def test_a_task_that_is_tried_again_is_answered_anew(tmp_path: Path) -> None:
    domain = Flat()
    own = stage(tmp_path, recipe={**HALF, "tasks": 2, "steps": 3, "redraw": 8}, limits=LAX)
    found = TrlEngine({domain.name: domain}).train(own, domain.tasks(1))
    assert (found.steps, found.rollouts) == (1, 24)
    (groups,) = groups_of(tmp_path)
    said = {tuple(row["messages"][-1]["content"] for row in group) for group in groups.values()}
    assert len(said) == len(groups) == 6
    (line,) = StageFolder(tmp_path).lines()
    assert (line["dead"], line["live"], line["grad_norm"]) == (1, 0, 0)


def test_filters_see_all_that_was_drawn_and_are_replayed_exactly(tmp_path: Path) -> None:
    chosen = (TopFilter(share=0.5, warm_up=1),)
    _, lines = trained(tmp_path, Half(), recipe={"redraw": 2}, filters=chosen)
    table = read(tmp_path / "rollouts").combine_chunks()
    stored = columns_of(table, {"share": ""})
    weight = stored.weights(chosen, stored.rewards("reward"))
    left_out = [float((weight[stored.step == step] == 0).mean()) for step in range(len(lines))]
    assert left_out == pytest.approx([line["left_out"] for line in lines])
    assert max(left_out) > 0
