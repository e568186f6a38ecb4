"""The example that hands a stage to ms-swift: what it says, what it reads, and one real run."""

import importlib.util
import json
import os
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("trl", reason="training needs the extra `train`")

from transformers import AutoTokenizer

from coevolve.core.errors import UserError
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.registry import get_domain
from coevolve.engines.base import Result, Stage
from coevolve.engines.command import CommandEngine, StageFolder
from coevolve.harness.recipe import Recipe
from coevolve.policies.base import Prompt, Sampling
from coevolve.policies.local import LocalPolicy
from coevolve.policies.models import find
from coevolve.store.shards import read

PROGRAM = Path(__file__).parents[2] / "examples" / "swift_grpo.py"
LAKE = get_domain("lake")

# What ms-swift 4.6.0 left of the stage below: attempts-0.jsonl and logging.jsonl, as they are.
ATTEMPTS = """\
{"task_id": "lake-309e237e648a699b", "row": 0, "text": "4,3 3,5 5,3 / 4,2 3,5 5,4 / 3,2 4,5 5,5 / 2,2 4,4 4,5 / 1,2 4,3 4,5 / 1,3 4,4 4,5 / 1,4 4,4 4,5", "tokens": 28, "stop": "end", "reward": 0.6040000000000001}
{"task_id": "lake-309e237e648a699b", "row": 0, "text": "5,4 4,4 3,3 / 5,4 4,4 4,3 / 5,3 4,4 5,3 / 4,3 4,4 5,4 / 3,3 4,4 5,5 / 3,2 4,4 4,5 / 2,2 4,4 4,5 / 1,2 4,4 4,5 / 1,3 4,4 4,5 / 1,4 4,4 4,5", "tokens": 40, "stop": "end", "reward": 0.0}
{"task_id": "lake-309e237e648a699b", "row": 0, "text": "4,5 5,5 4,4 / 3,5 4,5 4,4 / 2,5 4,4 4,5 / 2,4 4,4 4,5 / 1,4 4,4 4,5", "tokens": 20, "stop": "end", "reward": 0.0}
{"task_id": "lake-5064f7d763afee68", "row": 1, "text": "2,1 1,2 1,1 / 2,0 1,1 2,1 / 1,0 2,1 2,2 / 1,1 3,1 2,2 / 1,2 3,1 2,2 / 1,3 3,1 2,2 / 0,3 3,1 2,2", "tokens": 28, "stop": "end", "reward": 0.7533333333333334}
{"task_id": "lake-5064f7d763afee68", "row": 1, "text": "2,1 1,2 2,2 / 1,1 1,1 2,2 / 1,2 2,1 2,2 / 1,3 3,1 2,2 / 0,3 3,1 2,2", "tokens": 20, "stop": "end", "reward": 0.0}
{"task_id": "lake-5064f7d763afee68", "row": 1, "text": "2,1 1,2 1,1 / 2,2 1,1 2,1 / 1,2 2,1 2,2 / 1,3 3,1 2,2 / 0,3 3,1 2,2", "tokens": 20, "stop": "end", "reward": 0.8}
{"task_id": "lake-3dbd19d8a4513f2f", "row": 2, "text": "2,3 4,2 1,3 / 3,3 4,1 1,2 / 3,3 4,1 2,2 / 3,3 4,1 2,1 / 3,3 4,1 2,0 / 3,3 4,1 1,0 / 3,3 4,1 0,0 / 3,3 4,1 0,1", "tokens": 32, "stop": "end", "reward": 0.8}
{"task_id": "lake-3dbd19d8a4513f2f", "row": 2, "text": "2,3 4,2 1,3 / 3,3 4,1 1,2 / 3,3 4,1 2,2 / 3,3 4,1 2,1 / 3,3 4,1 2,0 / 3,3 4,1 1,0 / 3,3 4,1 0,0 / 3,3 4,1 0,1", "tokens": 32, "stop": "end", "reward": 0.8}
{"task_id": "lake-3dbd19d8a4513f2f", "row": 2, "text": "2,3 4,2 1,3 / 3,3 4,1 2,3 / 3,3 4,1 2,2 / 3,3 4,1 2,1 / 3,3 4,1 2,0 / 3,3 4,1 1,0 / 3,3 4,1 0,0 / 3,3 4,1 0,1", "tokens": 32, "stop": "end", "reward": 0.8}
{"task_id": "lake-bc0908b988fdf511", "row": 3, "text": "0,1 2,2 0,2 / 0,1 2,1 0,3 / 0,1 2,0 1,3 / 0,1 3,0 1,3", "tokens": 16, "stop": "end", "reward": 0.7066666666666667}
{"task_id": "lake-bc0908b988fdf511", "row": 3, "text": "0,1 2,2 1,3 / 0,1 2,1 1,3 / 0,1 2,0 1,3 / 0,1 3,0 1,3", "tokens": 16, "stop": "end", "reward": 0.8}
{"task_id": "lake-bc0908b988fdf511", "row": 3, "text": "0,1 3,1 1,3 / 0,1 3,0 1,3", "tokens": 8, "stop": "end", "reward": 0.0}
"""  # noqa: E501
LOGGED = """\
{"loss": -0.0120972, "grad_norm": 2.81834912, "learning_rate": 0.0001, "completions/mean_length": 26.0, "completions/min_length": 20.0, "completions/max_length": 40.0, "completions/clipped_ratio": 0.0, "reward": 0.35955554, "reward_std": 0.39886746, "frac_reward_zero_std": 0.0, "rewards/StageJudge/mean": 0.35955557, "rewards/StageJudge/std": 0.39916059, "clip_ratio/low_mean": 0.0, "clip_ratio/low_min": 0.0, "clip_ratio/high_mean": 0.0, "clip_ratio/high_max": 0.0, "clip_ratio/region_mean": 0.0, "step_time": 8.90555317, "epoch": 0.5, "global_step/max_steps": "1/2", "elapsed_time": "9s", "remaining_time": "9s", "train_speed(s/it)": 9.375991}
{"loss": -0.06752048, "grad_norm": 2.86001873, "learning_rate": 0.0001, "completions/mean_length": 22.66666603, "completions/min_length": 8.0, "completions/max_length": 32.0, "completions/clipped_ratio": 0.0, "reward": 0.65111113, "reward_std": 0.2187168, "frac_reward_zero_std": 0.5, "rewards/StageJudge/mean": 0.65111113, "rewards/StageJudge/std": 0.32115534, "clip_ratio/low_mean": 0.0, "clip_ratio/low_min": 0.0, "clip_ratio/high_mean": 0.0, "clip_ratio/high_max": 0.0, "clip_ratio/region_mean": 0.0, "step_time": 3.77367431, "epoch": 1.0, "global_step/max_steps": "2/2", "elapsed_time": "14s", "remaining_time": "0s", "train_speed(s/it)": 6.813188}
{"train_runtime": 13.9607, "train_samples_per_second": 0.86, "train_steps_per_second": 0.143, "total_flos": 0.0, "train_loss": -0.03980884, "epoch": 1.0, "global_step/max_steps": "2/2", "elapsed_time": "14s", "remaining_time": "0s", "train_speed(s/it)": 6.977639}
"""  # noqa: E501
LEAVES = f"""#!{sys.executable}
import json, pathlib, shutil, sys

told = json.loads(pathlib.Path(sys.argv[4]).read_text())
run = pathlib.Path(told["output_dir"])
(run / "attempts-0.jsonl").write_text({ATTEMPTS!r})
(run / "logging.jsonl").write_text({LOGGED!r})
last = run / f"checkpoint-{{told['max_steps']}}"
shutil.copytree(told["model"], last)
for name in ("trainer_state.json", "args.json", "training_args.bin", "rng_state.pth"):
    (last / name).write_text("{{}}")
"""


def tasks() -> list[Task]:
    return list(LAKE.generate(LAKE.space.parse({"agents3.share": 1}), 4, 0, Split.TRAIN))


def stage(folder: Path, **recipe: object) -> Stage:
    values = {"steps": 2, "tasks": 2, "group": 3, "max_tokens": 64, "learning_rate": 1e-4, **recipe}
    return Stage(kind="grpo", model="pocket", recipe=Recipe(**values), folder=folder)


def train(folder: Path) -> Result:
    return CommandEngine(str(PROGRAM)).train(stage(folder), tasks())


def opened(folder: Path, **recipe: object) -> StageFolder:
    """The folder of a stage as the program finds it."""
    folder.mkdir()
    CommandEngine(str(PROGRAM)).open(stage(folder, **recipe), tasks(), folder)
    return StageFolder(folder)


@pytest.fixture(scope="module")
def example() -> ModuleType:
    place = importlib.util.spec_from_file_location("swift_grpo", PROGRAM)
    assert place is not None
    assert place.loader is not None
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


@pytest.fixture
def leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in that leaves what ms-swift left."""
    program = tmp_path / "python"
    program.write_text(LEAVES)
    program.chmod(0o755)
    monkeypatch.setenv("COEVOLVE_SWIFT", str(program))


@pytest.mark.usefixtures("leaves")
def test_what_ms_swift_wrote_is_read(tmp_path: Path) -> None:
    result = train(tmp_path / "stage")
    assert (result.steps, result.rollouts) == (2, 12)
    assert result.metrics["reward_gap"] == 0
    assert result.metrics["grad_norm"] == 2.86001873
    steps = (tmp_path / "stage" / "steps.jsonl").read_text().splitlines()
    assert [json.loads(line)["dead"] for line in steps] == [0.0, 0.5]
    found = read(tmp_path / "stage" / "rollouts").to_pylist()
    assert [one["valid"] for one in found] == [
        True, False, False, True, False, True, True, True, True, True, True, False,
    ]  # fmt: skip
    assert [one["group"] for one in found[::3]] == ["0/0", "0/1", "1/0", "1/1"]
    assert [one["completion_tokens"] for one in found[:3]] == [28, 40, 20]
    assert all(one["prompt_tokens"] > 10 for one in found)
    files = {file.name for file in Path(result.policy).iterdir()}
    assert "model.safetensors" in files
    assert not files & {"args.json", "trainer_state.json", "training_args.bin", "rng_state.pth"}


def test_a_stage_in_its_words(example: ModuleType, tmp_path: Path) -> None:
    work = opened(
        tmp_path / "stage", iterations=2, micro_batch=2, loss="gspo", kl=0.01, clip_low=0.1,
        clip_high=0.3, temperature=0.7, schedule="cosine", lora=4,
    )  # fmt: skip
    example.check(work)
    told = example.settings(work, tmp_path, 1)
    wanted = {
        "model": find("pocket"), "max_steps": 4, "num_generations": 3, "num_iterations": 2,
        "per_device_train_batch_size": 2, "gradient_accumulation_steps": 3,
        "max_completion_length": 64, "temperature": 0.7, "learning_rate": 1e-4,
        "lr_scheduler_type": "cosine", "loss_type": "grpo",
        "importance_sampling_level": "sequence", "epsilon": 0.1, "epsilon_high": 0.3, "beta": 0.01,
        "tuner_type": "lora", "lora_rank": 4, "lora_alpha": 8, "lora_dropout": 0.0,
        "logging_steps": 2, "resume_from_checkpoint": str(tmp_path / "checkpoint-2"),
    }  # fmt: skip
    assert {name: told[name] for name in wanted} == wanted


def test_tasks_come_in_the_order_of_the_stage(example: ModuleType, tmp_path: Path) -> None:
    work = opened(tmp_path / "stage")
    asked = example.prompts(work, AutoTokenizer.from_pretrained(work.model))
    rows = example.rows(work, asked)
    assert [row["task"] for row in rows] == [tasks()[place].id for place in work.order]
    assert [row["row"] for row in rows] == [0, 1, 2, 3]
    (message,) = rows[0]["messages"]
    assert message == {"role": "user", "content": asked[rows[0]["task"]][0]}
    assert len(message["content"].split()) == asked[rows[0]["task"]][1]


def test_an_adapter_goes_on_being_trained(example: ModuleType, tmp_path: Path) -> None:
    work = opened(tmp_path / "stage", kl=0.01)
    work.model = str(tmp_path / "adapter")
    (tmp_path / "adapter").mkdir()
    base = {"base_model_name_or_path": find("pocket")}
    (tmp_path / "adapter" / "adapter_config.json").write_text(json.dumps(base))
    told = example.settings(work, tmp_path, 0)
    assert (told["model"], told["tuner_type"]) == (find("pocket"), "lora")
    assert told["adapters"] == told["ref_adapters"] == work.model


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        ({"entropy": 0.01}, r"swift_grpo.py cannot do this: recipe\.entropy = 0\.01"),
        ({"loss": "luspo"}, r"cannot do this: recipe\.loss = luspo"),
        ({"tokens": 9, "generator": "vllm"}, r"recipe\.tokens = 9, recipe\.generator = vllm"),
        ({}, "COEVOLVE_SWIFT is not set"),
    ],
)
def test_what_cannot_be_done_is_told(
    example: ModuleType, recipe: dict[str, object], said: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.delenv("COEVOLVE_SWIFT", raising=False)
    work = opened(tmp_path / "stage", **recipe)
    with pytest.raises(UserError, match=said):
        example.main(str(work.path), [])


def test_what_was_written_after_the_last_checkpoint_is_dropped(
    example: ModuleType, tmp_path: Path
) -> None:
    run, recipe = tmp_path / "swift", Recipe(steps=2, tasks=2, group=3)
    for number in (1, 2):
        (run / f"checkpoint-{number}").mkdir(parents=True)
    (run / "checkpoint-1" / "trainer_state.json").write_text("{}")
    (run / "attempts-0.jsonl").write_text(ATTEMPTS + '{"task_id": "lake-')
    (run / "logging.jsonl").write_text(LOGGED)
    assert example.begin(run, recipe) == 1
    rows = [line["row"] for line in example.lines_of(run / "attempts-0.jsonl")]
    assert rows == [0, 0, 0, 1, 1, 1]
    assert [example.step_of(one, recipe) for one in example.lines_of(run / "logging.jsonl")] == [1]
    (run / "checkpoint-1" / "trainer_state.json").unlink()
    assert example.begin(run, recipe) == 0
    assert not list(run.glob("attempts-*"))


@pytest.mark.slow
@pytest.mark.skipif(
    "COEVOLVE_SWIFT" not in os.environ,
    reason="COEVOLVE_SWIFT names no Python with ms-swift, see docs/engines.md",
)
def test_ms_swift_trains_and_goes_on(tmp_path: Path) -> None:
    result = train(tmp_path / "stage")
    assert (result.steps, result.rollouts) == (2, 12)
    assert result.metrics["reward_gap"] == 0
    assert result.metrics["grad_norm"] > 0
    weights = (Path(result.policy) / "model.safetensors").read_bytes()
    assert weights != (Path(find("pocket")) / "model.safetensors").read_bytes()
    (answer,) = LocalPolicy(result.policy).answer(
        [Prompt(LAKE.prompt(tasks()[0], "cells"))], Sampling(max_tokens=8)
    )
    assert answer.text

    # As if it had been killed while it saved the last checkpoint.
    cut = tmp_path / "cut"
    shutil.copytree(tmp_path / "stage", cut, symlinks=True)
    (cut / "done.json").unlink()
    (cut / "swift" / "checkpoint-2" / "trainer_state.json").unlink()
    shutil.rmtree(cut / "policy")
    again = train(cut)
    assert (Path(again.policy) / "model.safetensors").read_bytes() == weights
    assert (cut / "rollouts.jsonl").read_text() == (
        tmp_path / "stage" / "rollouts.jsonl"
    ).read_text()
