"""GRPO through verl, for the engine `command`:

    coevolve train grpo -p Qwen/Qwen3-4B --device cuda \\
        --engine "command:examples/verl_grpo.py trainer.n_gpus_per_node=8"

Words after the program are settings of verl's own, which win over ours. verl may live in an
environment of its own, in which coevolve is installed, too: COEVOLVE_VERL=/path/to/python.

NOT RUN WITH VERL BY US: written after the source of verl 0.9 and 0.10.0.dev (2026-08), and tried
with a stand-in that reads and writes what these do. Rewards come from the stage's judge, through
`compute_score` below; attempts are read back from verl's `rollout_data_dir`.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from coevolve.core.errors import EngineError, UserError
from coevolve.core.rollout import StopReason
from coevolve.engines.command import StageFolder
from coevolve.engines.score import ROLLOUTS, Attempt

LOSSES = {"dapo": "token-mean", "grpo": "seq-mean-token-mean", "dr_grpo": "seq-mean-token-sum-norm"}
"""What verl calls the ways in which a loss is summed up."""


@cache
def opened(folder: str) -> StageFolder:
    return StageFolder(folder)


def compute_score(data_source: str, solution_str: str, ground_truth: str, **_: Any) -> float:
    """What verl asks of an answer; `data_source` is the folder of the stage."""
    return opened(data_source).score(json.loads(ground_truth)["task"], solution_str)


def check(work: StageFolder) -> None:
    """Refuse what verl would do otherwise than the stage says."""
    recipe = work.stage.recipe
    work.refuse(Path(__file__).name, {
        f"recipe.schedule = {recipe.schedule}": recipe.schedule != "constant",
        f"recipe.loss = {recipe.loss}": recipe.loss not in LOSSES,
    })  # fmt: skip


def rows(work: StageFolder) -> list[dict[str, Any]]:
    """verl's training data: a row per task of a step, in the order of the stage."""
    asked = [work.asks[place] for place in work.order]
    return [
        {
            "data_source": str(work.path),
            "prompt": [{"role": one.role, "content": one.content} for one in ask.messages],
            "ability": ask.domain,
            # Comes back with every attempt as `gts`.
            "reward_model": {
                "style": "rule", "ground_truth": json.dumps({"task": ask.id, "row": number}),
            },
            "extra_info": {"index": number},
        }
        for number, ask in enumerate(asked)
    ]  # fmt: skip


def longest(work: StageFolder, tokenizer: Any) -> int:
    """Tokens of the longest prompt."""
    from coevolve.policies.local import render

    return max(len(render(tokenizer, ask.messages)) for ask in work.asks)


def settings(work: StageFolder, data: Path, longest_prompt: int) -> dict[str, Any]:
    """The stage in verl's words."""
    recipe, actor = work.stage.recipe, "actor_rollout_ref.actor"
    found: dict[str, Any] = {
        "algorithm.adv_estimator": "grpo",
        "algorithm.norm_adv_by_std_in_grpo": recipe.loss != "dr_grpo",
        "algorithm.use_kl_in_reward": False,
        "data.train_files": data, "data.val_files": data, "data.shuffle": False,
        "data.train_batch_size": recipe.tasks,
        "data.max_prompt_length": longest_prompt, "data.max_response_length": recipe.max_tokens,
        "actor_rollout_ref.model.path": work.model,
        f"{actor}.optim.lr": recipe.learning_rate,
        f"{actor}.ppo_mini_batch_size": recipe.tasks, f"{actor}.ppo_epochs": recipe.iterations,
        f"{actor}.ppo_micro_batch_size_per_gpu": recipe.micro_batch or recipe.group,
        f"{actor}.clip_ratio_low": recipe.clip_low, f"{actor}.clip_ratio_high": recipe.clip_high,
        f"{actor}.use_kl_loss": recipe.kl > 0, f"{actor}.kl_loss_coef": recipe.kl,
        f"{actor}.entropy_coeff": recipe.entropy, f"{actor}.loss_agg_mode": LOSSES[recipe.loss],
        "actor_rollout_ref.rollout.name": "vllm",
        "actor_rollout_ref.rollout.n": recipe.group,
        "actor_rollout_ref.rollout.temperature": recipe.temperature,
        "actor_rollout_ref.rollout.tensor_model_parallel_size": 1,
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": recipe.group,
        "reward.custom_reward_function.path": Path(__file__).resolve(),
        "reward.custom_reward_function.name": "compute_score",
        "trainer.total_training_steps": recipe.steps, "trainer.total_epochs": 1,
        "trainer.save_freq": recipe.steps, "trainer.default_local_dir": work.path / "verl",
        "trainer.rollout_data_dir": work.path / "verl-rollouts",
        "trainer.resume_mode": "auto", "trainer.val_before_train": False,
        "trainer.nnodes": 1, "trainer.n_gpus_per_node": work.stage.processes,
        "trainer.logger": '["console"]',
    }  # fmt: skip
    if recipe.lora:
        return found | {
            "actor_rollout_ref.model.lora_rank": recipe.lora,
            "actor_rollout_ref.model.lora_alpha": 2 * recipe.lora,
            "actor_rollout_ref.rollout.load_format": "safetensors",
        }
    contents = '["model","optimizer","extra","hf_model"]'
    return found | {f"{actor}.checkpoint.save_contents": contents}


def attempts(work: StageFolder, tokenizer: Any) -> Iterator[list[Attempt]]:
    """What verl wrote down, step by step, in groups."""
    for step in range(work.stage.recipe.steps):
        file = work.path / "verl-rollouts" / f"{step + 1}.jsonl"
        if not file.exists():
            raise EngineError(f"verl has left no {file}")
        found = []
        for number, line in enumerate(file.read_text("utf-8").rstrip("\n").split("\n"), 1):
            try:
                said = json.loads(line)
                truth = json.loads(said["gts"])
                tokens = len(tokenizer(said["output"], add_special_tokens=False)["input_ids"])
                cut = tokens >= work.stage.recipe.max_tokens
                found.append(
                    Attempt(
                        task_id=truth["task"], step=step,
                        group=truth["row"] - step * work.stage.recipe.tasks,
                        text=said["output"], reward=said["score"], tokens=tokens,
                        stop=StopReason.LENGTH if cut else StopReason.END,
                    )
                )  # fmt: skip
            except (ValueError, KeyError, TypeError) as error:
                raise EngineError(f"{file}, line {number}: {error!r}") from None
        yield sorted(found, key=lambda one: one.group)


def take_policy(work: StageFolder, python: str) -> None:
    """The last checkpoint as a folder that transformers can load, or as an adapter."""
    saved = work.path / "verl" / f"global_step_{work.stage.recipe.steps}" / "actor"
    weights = saved / "huggingface"
    if work.stage.recipe.lora:
        merged = work.path / "verl-merged"
        command = [python, "-m", "verl.model_merger", "merge", "--backend", "fsdp"]
        places = ["--local_dir", str(saved), "--target_dir", str(merged)]
        subprocess.run([*command, *places], check=True)
        weights = merged / "lora_adapter"
    shutil.copytree(weights, work.policy, dirs_exist_ok=True)


def main(folder: str, more: list[str]) -> None:
    import pyarrow
    from pyarrow import parquet
    from transformers import AutoTokenizer

    work = StageFolder(folder)
    check(work)
    tokenizer = AutoTokenizer.from_pretrained(work.model)
    data = work.path / "verl.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows(work)), data)
    python = os.environ.get("COEVOLVE_VERL", sys.executable)
    told = [
        f"{name}={value}" for name, value in settings(work, data, longest(work, tokenizer)).items()
    ]
    subprocess.run([python, "-m", "verl.trainer.main_ppo", *told, *more], check=True)
    for step, found in enumerate(attempts(work, tokenizer)):
        work.append(ROLLOUTS, step, [one.model_dump_json() for one in found])
        work.tell(step + 1, reward=fmean(one.reward or 0.0 for one in found))
    take_policy(work, python)


if __name__ == "__main__":
    try:
        main(sys.argv[-1], sys.argv[1:-1])
    except (UserError, EngineError, subprocess.CalledProcessError) as error:
        sys.exit(f"error: {error}")
