"""What must hold of training, whatever is trained: order, resumption, agreement, evidence."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="training needs the extra `train`")

import torch
from training import lake_tasks, stage, weights

from coevolve.core.errors import EngineError, SplitError, UserError
from coevolve.core.splits import Split
from coevolve.domains.registry import get_domain
from coevolve.engines.base import Progress
from coevolve.engines.trl.engine import TrlEngine
from coevolve.engines.trl.folder import StageFolder
from coevolve.store.shards import read

HERE = Path(__file__).parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), *sys.path])}
"""Of another process: it imports what this one does."""


def run(folder: Path, **changes: object) -> list[Progress]:
    """Train, and return what was observed."""
    seen: list[Progress] = []
    TrlEngine().train(stage(folder, **changes), lake_tasks(8), seen.append)
    return seen


def difference(one: Path, other: Path) -> tuple[float, float]:
    """How far two policies are from each other, and from where they started, on average."""
    from coevolve.pocket import folder

    first, second, start = weights(one / "policy"), weights(other / "policy"), weights(folder())
    apart = sum((first[name] - second[name]).abs().sum().item() for name in first)
    moved = sum((first[name] - start[name]).abs().sum().item() for name in first)
    return apart, moved


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stage that was never disturbed."""
    folder = tmp_path_factory.mktemp("stages") / "whole"
    assert [progress.step for progress in run(folder)] == [1, 2, 3, 4]
    return folder


KILLED = """
import json, os, signal, sys
from pathlib import Path
from training import lake_tasks, stage
from coevolve.engines.trl.engine import TrlEngine

def observe(progress):
    if progress.step == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

changed = stage(Path(sys.argv[1]), recipe=json.loads(sys.argv[3]))
TrlEngine().train(changed, lake_tasks(8), observe)
"""


def killed(folder: Path, step: int, **recipe: object) -> None:
    """Begin a stage, and end it as soon as a step is told."""
    command = [sys.executable, "-c", KILLED, str(folder), str(step), json.dumps(recipe)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr[-500:]
    assert not (folder / "result.json").exists()


def check_same(one: Path, other: Path) -> None:
    """Two stages have the same policy, bit for bit, and the same rollouts."""
    expected, found = weights(one / "policy"), weights(other / "policy")
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    first, second = read(one / "rollouts"), read(other / "rollouts")
    for column in ("task_id", "sample", "step", "messages", "reward", "shaped", "mean_logprob"):
        assert first[column].to_pylist() == second[column].to_pylist(), column


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_killed_and_resumed_is_as_if_never_killed(whole: Path, tmp_path: Path, step: int) -> None:
    killed(tmp_path / "stage", step)
    run(tmp_path / "stage")
    check_same(whole, tmp_path / "stage")


def test_several_updates_on_a_batch_are_one_step(whole: Path, tmp_path: Path) -> None:
    recipe = {"iterations": 3, "schedule": "cosine", "clip_low": 0.01, "clip_high": 0.01}
    seen = run(tmp_path / "stage", recipe={**recipe, "learning_rate": 1e-3})
    assert [(progress.step, progress.steps) for progress in seen] == [(n, 4) for n in (1, 2, 3, 4)]
    lines, once = StageFolder(tmp_path / "stage").lines(), StageFolder(whole).lines()
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert [line["learning_rate"] for line in lines][-1] < 1e-4 < lines[0]["learning_rate"]
    for name in ("reward", "valid", "dead", "length", "tokens"):  # the first batch is the same
        assert lines[0][name] == once[0][name], name
    assert lines[0]["clipped"] > 0 == once[0]["clipped"]
    assert max(line["logprob_gap_max"] for line in lines) < 1e-3  # of the weights that drew
    rollouts = read(tmp_path / "stage" / "rollouts")
    assert rollouts["step"].to_pylist() == [step for step in range(4) for _ in range(8)]
    result = StageFolder(tmp_path / "stage").result()
    assert result is not None
    assert (result.steps, result.rollouts) == (4, 32)


def test_several_updates_are_resumed_at_the_border_of_a_step(tmp_path: Path) -> None:
    recipe = {"iterations": 2, "schedule": "linear", "micro_batch": 4}
    run(tmp_path / "whole", recipe=recipe)
    killed(tmp_path / "stage", 3, **recipe)
    last = StageFolder(tmp_path / "stage").last()
    assert last is not None
    assert (last[0], last[1].name) == (2, "checkpoint-4")
    assert [progress.step for progress in run(tmp_path / "stage", recipe=recipe)] == [3, 4]
    check_same(tmp_path / "whole", tmp_path / "stage")


def test_a_temperature_that_falls_resumes_as_if_never_killed(tmp_path: Path) -> None:
    recipe = {"temperature": 1.2, "temperature_end": 0.6, "iterations": 2}
    run(tmp_path / "whole", recipe=recipe)
    lines = StageFolder(tmp_path / "whole").lines()
    assert [line["temperature"] for line in lines] == pytest.approx([1.2, 1.0, 0.8, 0.6])
    assert all(line["logprob_gap"] < 1e-3 for line in lines)  # learned from as they were drawn
    killed(tmp_path / "stage", 3, **recipe)
    run(tmp_path / "stage", recipe=recipe)
    check_same(tmp_path / "whole", tmp_path / "stage")


def test_half_solved_tasks_are_tried_again_and_resume_as_if_never_killed(tmp_path: Path) -> None:
    recipe = {"revisit": 0.5, "steps": 6, "tasks": 4}
    run(tmp_path / "whole", recipe=recipe)
    rows = read(tmp_path / "whole" / "rollouts").select(["task_id", "step", "group", "shaped"])
    groups: dict[str, list[dict[str, object]]] = {}
    for row in rows.to_pylist():
        groups.setdefault(row["group"], []).append(row)
    tried = [(group[0]["task_id"], len({one["shaped"] for one in group}) > 1) for group in
             groups.values()]  # fmt: skip
    waiting: list[str] = []
    again = 0
    for step in range(6):
        own = tried[4 * step : 4 * step + 4]
        count = min(2, len(waiting))
        assert [task for task, _ in own[4 - count :]] == waiting[:count]
        again, waiting = again + count, waiting[count:]
        waiting += [task for task, live in own if live and task not in waiting]
    assert again >= 4
    killed(tmp_path / "stage", 3, **recipe)
    run(tmp_path / "stage", recipe=recipe)
    check_same(tmp_path / "whole", tmp_path / "stage")


def test_dead_groups_are_drawn_again_and_resume_as_if_never_killed(tmp_path: Path) -> None:
    recipe = {"redraw": 2, "revisit": 0.5, "iterations": 2, "steps": 10, "tasks": 4, "group": 2}
    run(tmp_path / "whole", recipe=recipe)
    lines = StageFolder(tmp_path / "whole").lines()
    assert {line["rollouts"] for line in lines[:2]} != {8}  # before it is killed
    result = StageFolder(tmp_path / "whole").result()
    assert result is not None
    assert result.rollouts == sum(line["rollouts"] for line in lines) <= 80
    assert result.rollouts == read(tmp_path / "whole" / "rollouts").num_rows
    assert 3 < result.steps == len(lines) < 10
    killed(tmp_path / "stage", 3, **recipe)
    run(tmp_path / "stage", recipe=recipe)
    check_same(tmp_path / "whole", tmp_path / "stage")
    again = StageFolder(tmp_path / "stage").result()
    assert again is not None
    assert (again.steps, again.rollouts) == (result.steps, result.rollouts)


def test_done_is_done(whole: Path) -> None:
    assert run(whole) == []


def test_another_stage_is_refused(whole: Path) -> None:
    with pytest.raises(UserError, match="different: seed"):
        run(whole, seed=1)


def test_micro_batches_and_accumulation_agree(whole: Path, tmp_path: Path) -> None:
    run(tmp_path, recipe={"micro_batch": 2})
    apart, moved = difference(whole, tmp_path)
    assert moved > 0
    assert apart < 0.05 * moved
    pairs = zip(StageFolder(whole).lines(), StageFolder(tmp_path).lines(), strict=True)
    for one, other in list(pairs)[:1]:
        assert one["reward"] == other["reward"]
        assert one["grad_norm"] == pytest.approx(other["grad_norm"], rel=1e-3)


@pytest.mark.parametrize(("group", "redraw"), [(8, 0), (2, 2)])
def test_two_processes_agree_with_one(tmp_path: Path, group: int, redraw: int) -> None:
    # Large enough for groups to be dead on one process and alive on the other.
    recipe = {"steps": 2, "tasks": 32 // group, "group": group, "redraw": redraw}
    run(tmp_path / "one", recipe=recipe)
    seen = run(tmp_path / "two", recipe=recipe, processes=2)
    drawn = [line.get("rollouts", 32) for line in StageFolder(tmp_path / "two").lines()]
    assert [progress.step for progress in seen] == list(range(1, len(drawn) + 1))
    apart, moved = difference(tmp_path / "one", tmp_path / "two")
    assert apart < 0.05 * moved
    one, two = read(tmp_path / "one" / "rollouts"), read(tmp_path / "two" / "rollouts")
    first = [
        {
            (row["group"], row["sample"]): row["messages"]
            for row in rows.to_pylist()
            if not row["step"]
        }
        for rows in (one, two)
    ]
    assert len(first[0]) == drawn[0] >= 32
    assert (drawn[0] > 32) == bool(redraw)
    assert first[0] == first[1]


LAUNCHED = """
import os, signal, sys
from pathlib import Path
from training import lake_tasks, stage
from coevolve.engines.trl.engine import TrlEngine

def observe(progress):
    if progress.step == 3:
        os.kill(os.getpid(), signal.SIGKILL)

recipe = {"steps": 60, "tasks": 4}
TrlEngine().train(stage(Path(sys.argv[1]), processes=2, recipe=recipe), lake_tasks(8), observe)
"""


def test_processes_end_with_a_killed_command_and_the_same_one_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "stage"
    command = [sys.executable, "-c", LAUNCHED, str(folder)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr[-500:]
    end = time.monotonic() + 60
    while folders_in_use(folder):
        assert time.monotonic() < end, "training goes on although nobody waits for it"
        time.sleep(0.1)
    last = StageFolder(folder).last()
    saved = last[0] if last else 0
    assert 2 <= saved < 60
    seen: list[Progress] = []
    with pytest.raises(Enough):
        TrlEngine().train(
            stage(folder, processes=2, recipe={"steps": 60, "tasks": 4}),
            lake_tasks(8),
            lambda progress: seen.append(progress) if len(seen) < 3 else enough(),
        )
    assert [progress.step for progress in seen] == [saved + 1, saved + 2, saved + 3]


class Enough(Exception):
    """Has seen enough."""


def enough() -> None:
    raise Enough


def folders_in_use(folder: Path) -> list[str]:
    """Processes that were told of a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(folder).encode() in path.read_bytes():
                found.append(path.parent.name)
    return found


def test_a_stage_is_trained_by_one_command_at_a_time(tmp_path: Path) -> None:
    def observe(_: Progress) -> None:
        with pytest.raises(UserError, match=f"is going on in process {os.getpid()}"):
            run(tmp_path)

    TrlEngine().train(stage(tmp_path, recipe={"steps": 1}), lake_tasks(2), observe)


def test_what_is_no_stage_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "policy").mkdir()
    (tmp_path / "policy" / "notes.txt").write_text("mine")
    (tmp_path / "tasks.jsonl").write_text("mine")
    with pytest.raises(UserError, match=r"holds other things than a stage \(policy, tasks"):
        run(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*")) == [
        "notes.txt", "policy", "tasks.jsonl",
    ]  # fmt: skip
    assert (tmp_path / "tasks.jsonl").read_text() == "mine"


def test_settings_that_are_refused_hold_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"micro_batch 3 does not divide .*; 2 does"):
        run(tmp_path, recipe={"micro_batch": 3})
    assert len(run(tmp_path, recipe={"steps": 1})) == 1


def copied(whole: Path, folder: Path, *left_out: str) -> Path:
    shutil.copytree(whole, folder, ignore=shutil.ignore_patterns(*left_out))
    return folder


def test_a_stage_whose_policy_is_gone_is_not_done(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"is done, but its .*policy is gone; delete the folder"):
        run(copied(whole, tmp_path / "stage", "policy"))


@pytest.mark.parametrize("name", ["stage.json", "result.json"])
def test_damaged_records_are_named(whole: Path, tmp_path: Path, name: str) -> None:
    file = copied(whole, tmp_path / "stage") / name
    file.write_text(file.read_text()[:20])
    with pytest.raises(EngineError, match=f"{name} is damaged; delete "):
        run(tmp_path / "stage")


def test_damaged_checkpoints_are_named_and_can_be_left_out(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "stage"
    with pytest.raises(Enough):
        TrlEngine().train(
            stage(folder, save_every=1),
            lake_tasks(8),
            lambda progress: enough() if progress.step == 3 else None,
        )
    last = StageFolder(folder).last()
    assert last is not None
    for name, left in (
        ("model.safetensors", 100), ("optimizer.pt", 100), ("optimizer.pt", 0),
        ("trainer_state.json", 9),
    ):  # fmt: skip
        data = (last[1] / name).read_bytes()
        (last[1] / name).write_bytes(data[:left])
        with pytest.raises(EngineError, match=f"{last[1].name} is damaged .*; delete it"):
            run(folder, save_every=1)
        (last[1] / name).write_bytes(data)
    probes = (folder / "probes-0.pt").read_bytes()
    for wrong in (b"", b"garbage"):
        (folder / "probes-0.pt").write_bytes(wrong)
        with pytest.raises(EngineError, match=r"probes-0\.pt is damaged; delete it"):
            run(folder, save_every=1)
    (folder / "probes-0.pt").write_bytes(probes)
    shutil.rmtree(last[1])
    run(folder, save_every=1)
    expected, found = weights(whole / "policy"), weights(folder / "policy")
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_training_and_sampling_agree(whole: Path) -> None:
    gaps = [line["logprob_gap_max"] for line in StageFolder(whole).lines()]
    assert len(gaps) == 4
    assert max(gaps) < 1e-3


def test_a_reward_in_training_is_the_reward_in_evaluation(whole: Path) -> None:
    domain = get_domain("lake")
    tasks = {task.id: task for task in lake_tasks(8)}
    rows = read(whole / "rollouts").to_pylist()
    assert len(rows) == 4 * 2 * 4
    for row in rows:
        text = row["messages"][-1]["content"]
        outcome = domain.verify(tasks[row["task_id"]], text, row["completion_tokens"])
        assert (outcome.reward, outcome.valid, outcome.failure) == (
            row["reward"], row["valid"], row["failure"],
        )  # fmt: skip


def test_every_rollout_is_recorded_with_its_measures(whole: Path) -> None:
    rows = read(whole / "rollouts").to_pylist()
    groups: dict[str, list[int]] = {}
    for row in rows:
        groups.setdefault(row["group"], []).append(row["sample"])
        assert row["split"] == "train"
        assert row["completion_tokens"] > 0 < row["prompt_tokens"]
        assert row["min_logprob"] <= row["mean_logprob"] <= 0 <= row["entropy"]
        assert row["seconds"] > 0
        assert set(dict(row["components"])) == {"accuracy", "length"}
    assert all(sorted(samples) == [0, 1, 2, 3] for samples in groups.values())
    assert len(groups) == 8


def test_tasks_of_other_splits_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SplitError, match="dev"):
        TrlEngine().train(stage(tmp_path), lake_tasks(2, Split.DEV))


FULL = """
import resource, sys
from pathlib import Path
from training import lake_tasks, stage
from coevolve.core.errors import EngineError
from coevolve.engines.trl.engine import TrlEngine

def observe(progress):
    if progress.step == 3:  # from here on no file may grow over a megabyte, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

try:
    TrlEngine().train(stage(Path(sys.argv[1])), lake_tasks(8), observe)
except EngineError as error:
    print(error)
    sys.exit(2)
"""


def test_a_full_disk_loses_nothing_that_was_saved(whole: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL, str(tmp_path / "stage")]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr[-2000:]
    assert "step 2 is saved" in done.stdout
    run(tmp_path / "stage")
    expected, found = weights(whole / "policy"), weights(tmp_path / "stage" / "policy")
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(EngineError, match="cannot write"):
        TrlEngine().train(stage(tmp_path / "file" / "stage"), lake_tasks(2))


def test_steps_are_written_as_they_come(whole: Path) -> None:
    lines = [json.loads(line) for line in (whole / "steps.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    for name in ("reward", "valid", "dead", "entropy", "length", "cut", "seconds", "tokens"):
        assert all(name in line for line in lines), name


def test_cut_off_after_the_last_step_the_policy_is_still_written(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Cut(Exception):
        pass

    def cut(*_: object) -> None:
        raise Cut

    with monkeypatch.context() as patched:
        patched.setattr(TrlEngine, "save", cut)
        with pytest.raises(Cut):
            run(tmp_path)
    assert not (tmp_path / "policy").exists()
    run(tmp_path)
    expected, found = weights(whole / "policy"), weights(tmp_path / "policy")
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_the_harness_reshapes_rewards_and_nothing_else(whole: Path, tmp_path: Path) -> None:
    """Twice the reward is the same training; none at all is no training."""
    run(tmp_path / "twice", reward="2 * reward")
    apart, moved = difference(whole, tmp_path / "twice")
    assert apart < 0.02 * moved
    told = run(tmp_path / "nothing", reward="0 * reward")
    assert told[-1].metrics["dead"] == 1.0
    assert told[-1].metrics["reward"] == 0.0
    rows = read(tmp_path / "nothing" / "rollouts").to_pylist()
    assert max(row["reward"] for row in rows) > 0  # what the domain gave is recorded
    with pytest.raises(UserError, match=r"'acuracy'.*accuracy"):
        run(tmp_path / "typo", reward="acuracy")


def test_filters_leave_out_and_resume_as_if_never_killed(tmp_path: Path) -> None:
    filters = ({"kind": "top", "share": 0.5, "memory": 0.5, "warm_up": 1},)
    told = run(tmp_path / "whole", filters=filters)
    left = [progress.metrics["left_out"] for progress in told]
    assert left[0] == 0
    assert max(left[1:]) > 0

    class Cut(Exception):
        """Stands for a kill."""

    def cut(progress: Progress) -> None:
        if progress.step == 3:
            raise Cut

    halves = stage(tmp_path / "halves", filters=filters)
    with pytest.raises(Cut):
        TrlEngine().train(halves, lake_tasks(8), cut)
    TrlEngine().train(halves, lake_tasks(8))
    lines = [StageFolder(tmp_path / name).lines() for name in ("whole", "halves")]
    for one, other in zip(*lines, strict=True):
        assert (one["left_out"], one["threshold"]) == (other["left_out"], other["threshold"])
    assert difference(tmp_path / "whole", tmp_path / "halves")[0] == 0
