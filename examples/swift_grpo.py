"""GRPO through ms-swift, for the engine `command`:

    COEVOLVE_SWIFT=/path/to/python coevolve train grpo -r steps=60 -r learning_rate=5e-5 \\
        --engine "command:examples/swift_grpo.py --gradient_checkpointing false"

COEVOLVE_SWIFT is the Python of an environment in which ms-swift is installed; it needs nothing of
coevolve. Words after the program are options of `swift rlhf`, which win over ours.

Run with ms-swift 4.6.0 on a CPU. The stage's judge pays the rewards and notes the attempts, see
`swift_judge.py`. Killed and started again, it goes on from the last checkpoint.
"""

import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from coevolve.core.errors import EngineError, UserError
from coevolve.core.seeds import derive
from coevolve.engines.command import StageFolder
from coevolve.engines.score import ROLLOUTS, Attempt
from coevolve.harness.recipe import Recipe
from coevolve.policies.local import render
from coevolve.policies.models import under
from coevolve.policies.vllm import free_port

LOSSES = ("grpo", "dr_grpo", "dapo", "bnpo", "gspo", "cispo", "sapo")
SCHEDULES = {"constant": "constant_with_warmup", "linear": "linear", "cosine": "cosine"}
METRICS = {
    **{name: name for name in ("loss", "grad_norm", "learning_rate", "reward", "reward_std", "kl")},
    "frac_reward_zero_std": "dead", "completions/mean_length": "length",
    "completions/clipped_ratio": "cut", "clip_ratio/region_mean": "clipped",
}  # fmt: skip
"""ms-swift's names of metrics and ours."""
NOT_POLICY = (
    "args.json", "optimizer.pt", "scheduler.pt", "trainer_state.json", "training_args.bin",
    "rng_state*", "README.md", "additional_config.json",
)  # fmt: skip
"""Files of a checkpoint that only the trainer reads."""
Asked = dict[str, tuple[str, int]]
"""By task the prompt, as the policy reads it, and its tokens."""
DATA, LOGGED = "data.jsonl", "logging.jsonl"
LOOK_S = 0.5
"""Between looks at how far ms-swift is."""


def check(work: StageFolder) -> None:
    """Refuse what ms-swift would do otherwise than the stage says."""
    recipe = work.stage.recipe
    work.refuse(Path(__file__).name, {
        f"recipe.loss = {recipe.loss}": recipe.loss not in LOSSES,
        f"recipe.entropy = {recipe.entropy:g}": bool(recipe.entropy),
        f"recipe.generator = {recipe.generator}": recipe.generator != "local",
        f"sharding = {work.stage.sharding}": work.stage.sharding == "full",
    })  # fmt: skip


def prompts(work: StageFolder, tokenizer: Any) -> Asked:
    """What is asked; as text, so that ms-swift's own chat templates do not matter."""
    found = {}
    for ask in work.asks:
        turns, ids = [one.model_dump() for one in ask.messages], render(tokenizer, ask.messages)
        text = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
        if tokenizer(text, add_special_tokens=False)["input_ids"] != ids:
            raise EngineError(f"the prompt of {ask.id} as text is not what the policy reads")
        found[ask.id] = text, len(ids)
    return found


def rows(work: StageFolder, asked: Asked) -> list[dict[str, Any]]:
    """ms-swift's training data: a row per task of a step, in the order of the stage."""
    tasks = [work.asks[place].id for place in work.order]
    return [
        {"messages": [{"role": "user", "content": asked[task][0]}], "task": task, "row": number}
        for number, task in enumerate(tasks)
    ]


def settings(work: StageFolder, run: Path, done: int) -> dict[str, Any]:
    """The stage in ms-swift's words, where so many steps are done."""
    stage, recipe, base = work.stage, work.stage.recipe, under(work.model)
    own = recipe.own(recipe.tasks * recipe.group, stage.processes)
    at_once = recipe.micro_batch or math.gcd(own, recipe.group)
    found: dict[str, Any] = {
        "rlhf_type": "grpo", "model": base, "model_type": "stage", "template": "stage",
        "use_hf": True, "check_model": False,
        "external_plugins": str(Path(__file__).with_name("swift_judge.py").resolve()),
        "reward_funcs": "stage",
        "dataset": str(run / DATA), "split_dataset_ratio": 0,
        "dataset_shuffle": False, "train_dataloader_shuffle": False,
        "max_steps": recipe.steps * recipe.iterations, "num_iterations": recipe.iterations,
        "num_generations": recipe.group, "per_device_train_batch_size": at_once,
        "gradient_accumulation_steps": own // at_once,
        "max_completion_length": recipe.max_tokens, "temperature": recipe.temperature,
        "learning_rate": recipe.learning_rate, "lr_scheduler_type": SCHEDULES[recipe.schedule],
        "warmup_steps": min(10, recipe.steps // 10) * recipe.iterations,
        "weight_decay": 0.0, "adam_beta2": 0.999, "max_grad_norm": 1.0,
        "loss_type": "grpo" if recipe.loss == "gspo" else recipe.loss,
        "importance_sampling_level": "sequence" if recipe.loss == "gspo" else "token",
        "scale_rewards": "none" if recipe.loss == "dr_grpo" else "group",
        "epsilon": recipe.clip_low, "epsilon_high": recipe.clip_high, "beta": recipe.kl,
        "seed": derive(stage.seed, "torch") % 2**31,
        "output_dir": str(run), "add_version": False, "logging_steps": recipe.iterations,
        "logging_first_step": False,
        "report_to": stage.tracking, "save_total_limit": 2,
        "save_steps": recipe.iterations * (stage.save_every or max(1, min(50, recipe.steps // 10))),
    }  # fmt: skip
    if stage.device == "cpu":
        found |= {"use_cpu": True, "ddp_backend": "gloo"}
    if done:
        found["resume_from_checkpoint"] = str(run / f"checkpoint-{done * recipe.iterations}")
    if not recipe.lora and base == work.model:
        return found | {"tuner_type": "full"}
    found |= {
        "tuner_type": "lora", "lora_rank": recipe.lora, "lora_alpha": 2 * recipe.lora,
        "lora_dropout": 0.0, "target_modules": "all-linear",
    }  # fmt: skip
    if base == work.model:
        return found
    found["adapters"] = work.model  # goes on being trained
    return found | ({"ref_adapters": work.model} if recipe.kl else {})


def steps_of(checkpoint: Path, recipe: Recipe) -> int:
    """After how many steps a checkpoint was made."""
    return int(checkpoint.name.partition("-")[2]) // recipe.iterations


def begin(run: Path, recipe: Recipe) -> int:
    """How many steps are done. What was written after the last checkpoint that is whole is
    dropped."""
    whole = [state.parent for state in run.glob("checkpoint-*/trainer_state.json")]
    done = max((steps_of(checkpoint, recipe) for checkpoint in whole), default=0)
    if not done:
        shutil.rmtree(run, ignore_errors=True)
        run.mkdir()
    for file in run.glob("attempts-*.jsonl"):
        keep(file, lambda line: line["row"] < done * recipe.tasks)
    keep(run / LOGGED, lambda line: "loss" in line and step_of(line, recipe) <= done)
    return done


def step_of(line: dict[str, Any], recipe: Recipe) -> int:
    """How many steps were done when ms-swift logged a line."""
    return int(line["global_step/max_steps"].partition("/")[0]) // recipe.iterations


def lines_of(file: Path) -> list[dict[str, Any]]:
    """The whole lines of a file that may not be there yet."""
    text = file.read_text("utf-8") if file.exists() else ""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def keep(file: Path, wanted: Callable[[dict[str, Any]], bool]) -> None:
    """Drop the other lines of a file."""
    kept = [json.dumps(line) + "\n" for line in lines_of(file) if wanted(line)]
    file.write_text("".join(kept), "utf-8")


def train(work: StageFolder, words: list[str], run: Path) -> None:
    """Have ms-swift run to its end, and tell how far it is."""
    recipe, told = work.stage.recipe, 0
    with subprocess.Popen(words, env=surroundings(work, run)) as trainer:
        going = True
        while going:
            time.sleep(LOOK_S)
            going = trainer.poll() is None
            measured = [line for line in lines_of(run / LOGGED) if "loss" in line]
            for line in measured[told:]:
                metrics = {ours: line[name] for name, ours in METRICS.items() if name in line}
                work.tell(step_of(line, recipe), **metrics)
            told = len(measured)
    if trainer.returncode:
        raise EngineError(f"ms-swift ended with {trainer.returncode}")


def surroundings(work: StageFolder, run: Path) -> dict[str, str]:
    """The environment of ms-swift."""
    device, _, number = work.stage.device.partition(":")
    own = {
        "COEVOLVE_PYTHON": sys.executable, "COEVOLVE_STAGE": str(work.path),
        "HF_DATASETS_CACHE": str(run / "cache"), "MODELSCOPE_CACHE": str(run / "cache"),
    }  # fmt: skip
    if device == "cpu" or number:
        own["CUDA_VISIBLE_DEVICES"] = number
    if work.stage.processes > 1:
        own |= {"NPROC_PER_NODE": str(work.stage.processes), "MASTER_PORT": str(free_port())}
    return os.environ | own


def attempts(work: StageFolder, run: Path, asked: Asked) -> Iterator[list[Attempt]]:
    """What the judge has noted, step by step, in groups."""
    recipe, found = work.stage.recipe, defaultdict[int, list[Attempt]](list)
    for file in sorted(run.glob("attempts-*.jsonl")):
        for number, said in enumerate(lines_of(file), 1):
            try:
                step, group = divmod(said.pop("row"), recipe.tasks)
                read = asked[said["task_id"]][1]
                found[step].append(Attempt(step=step, group=group, prompt_tokens=read, **said))
            except (ValueError, KeyError, TypeError) as error:
                raise EngineError(f"{file}, line {number}: {error!r}") from None
    for step in range(recipe.steps):
        yield sorted(found[step], key=lambda one: one.group)


def main(folder: str, more: list[str]) -> None:
    from transformers import AutoConfig, AutoTokenizer

    work = StageFolder(folder)
    check(work)
    python = os.environ.get("COEVOLVE_SWIFT")
    if not python:
        raise UserError("COEVOLVE_SWIFT is not set; it names the Python of ms-swift's environment")
    recipe, run, config = work.stage.recipe, work.path / "swift", work.path / "swift.json"
    base = under(work.model)
    tokenizer = AutoTokenizer.from_pretrained(base)
    asked = prompts(work, tokenizer)
    if (done := begin(run, recipe)) < recipe.steps:
        lines = [json.dumps(row) + "\n" for row in rows(work, asked)]
        (run / DATA).write_text("".join(lines), "utf-8")
        config.write_text(json.dumps(settings(work, run, done), indent=1), "utf-8")
        train(work, [python, "-m", "swift.cli.main", "rlhf", str(config), *more], run)

    for step, found in enumerate(attempts(work, run, asked)):
        work.append(ROLLOUTS, step, [one.model_dump_json() for one in found])
    AutoConfig.from_pretrained(base).save_pretrained(work.policy)  # an adapter has none
    tokenizer.save_pretrained(work.policy)
    last = run / f"checkpoint-{recipe.steps * recipe.iterations}"
    ignored = shutil.ignore_patterns(*NOT_POLICY)
    shutil.copytree(last, work.policy, dirs_exist_ok=True, ignore=ignored)


if __name__ == "__main__":
    try:
        main(sys.argv[-1], sys.argv[1:-1])
    except (UserError, EngineError) as error:
        sys.exit(f"error: {error}")
