"""What TRL is told: the recipe, and everything that follows from it, with the reason."""

from importlib.util import find_spec
from typing import Any, NamedTuple

from coevolve.core.errors import UserError
from coevolve.core.seeds import derive
from coevolve.engines.base import Stage

PROMPT = 256
"""Tokens that a prompt or a reply is taken to have when passes are planned."""
ROOM = {"small": 1 << 20, "middle": 1 << 15, "large": 1 << 12}
"""Tokens per pass by size of the model, unless the recipe sets micro_batch."""
VLLM_SHARE = 0.3
"""Of a GPU's memory, for vLLM in the process that trains."""
SCHEDULES = {"constant": "constant_with_warmup", "linear": "linear", "cosine": "cosine"}
"""Of the learning rate, as transformers calls them."""


class Setting(NamedTuple):
    """One argument of a TRL trainer."""

    name: str
    value: Any
    reason: str


class Machine(NamedTuple):
    """What the settings depend on beside the stage."""

    cuda: bool
    mixes: bool
    """Weights are computed with in bfloat16."""
    size: str
    """small (all overhead), middle, or large (a billion parameters and more)."""
    turns: int = 1
    """Most answers of a rollout, each of up to max_tokens."""
    context: int = 1 << 31
    """Most tokens of a rollout."""
    calls: int = 0
    """Most turns of a rollout that tools answer."""


def shards(stage: Stage, size: str) -> bool:
    """Whether the processes share the weights among them."""
    if stage.processes == 1:
        return False
    return stage.sharding == "full" or (stage.sharding == "auto" and size == "large")


def halves(stage: Stage, size: str, cuda: bool) -> bool:
    """Whether weights rest below adapters in bfloat16, where a GPU computes with them in that."""
    resting = stage.recipe.rank > 0 and not shards(stage, size)
    return cuda and resting and size != "small"


def save_every(stage: Stage, size: str) -> int:
    """Steps between checkpoints: a tenth of the stage, a quarter where saving takes seconds."""
    part = stage.recipe.steps // (10 if size == "small" else 4)
    return stage.save_every or max(1, min(50, part))


def passes(
    stage: Stage, size: str, rollouts: int, turns: int, context: int = 1 << 31, longest: int = 0
) -> tuple[int, int]:
    """(rollouts per pass, passes per step) on each process; of up to `longest` tokens each, where
    that is known."""
    own, at_once = stage.recipe.own(rollouts, stage.processes), stage.recipe.micro_batch
    if not at_once:
        longest = longest or min(turns * (PROMPT + stage.recipe.max_tokens), context)
        most = max(1, ROOM[size] // longest)
        at_once = max(n for n in range(1, own + 1) if own % n == 0 and n <= most)
    return at_once, own // at_once


def common(stage: Stage, machine: Machine, rollouts: int, longest: int = 0) -> list[Setting]:
    """What a warm start and GRPO share."""
    recipe, updates = stage.recipe, stage.updates
    at_once, accumulated = passes(
        stage, machine.size, rollouts, machine.turns, machine.context, longest
    )
    every = save_every(stage, machine.size)
    large, sharded = machine.size == "large", shards(stage, machine.size)
    return [
        Setting("max_steps", recipe.steps * updates, "recipe: steps, in updates (iterations)"),
        Setting("learning_rate", recipe.learning_rate, "recipe"),
        Setting("per_device_train_batch_size", at_once, "micro_batch, or by the model's size"),
        Setting("gradient_accumulation_steps", accumulated,
                "so that an update sees the whole batch"),
        Setting("lr_scheduler_type", SCHEDULES[recipe.schedule], "recipe: schedule"),
        Setting("warmup_steps", min(10, recipe.steps // 10) * updates,
                "Adam's averages are empty at first"),
        Setting("weight_decay", 0.0, "stages are short, decay would only blur the comparison"),
        Setting("max_grad_norm", 1.0, "one odd batch must not undo the others"),
        Setting("bf16", machine.mixes, "float32 weights, bfloat16 products, where a GPU has them"),
        Setting("fp16", False, "needs loss scaling, which a resumed run would have to repeat"),
        Setting("use_cpu", not machine.cuda, "the device that was chosen"),
        Setting("dataloader_pin_memory", False, "rows are words, through which pinning only walks"),
        Setting("gradient_checkpointing", large and not sharded, "memory over time, if large"),
        Setting("fsdp", sharded, "sharding: each process holds a part of the weights"),
        Setting("fsdp_config", {"version": 2, "activation_checkpointing": large and sharded},
                "as above, by FSDP2"),
        Setting("ddp_broadcast_buffers", False,
                "processes may take a different number of passes, so none may wait in a pass"),
        Setting("ddp_find_unused_parameters", False, "every weight is used"),
        Setting("seed", derive(stage.seed, "torch") % 2**31, "derived from the stage's seed"),
        Setting("logging_steps", updates, "the watch sees every step"),
        Setting("logging_nan_inf_filter", False, "a NaN must be seen, not averaged away"),
        Setting("save_strategy", "steps", "a killed run goes on from the last checkpoint"),
        Setting("save_steps", every * updates,
                "a tenth of the stage is lost at most, or a quarter; never amid a batch"),
        Setting("save_total_limit", None, "the engine drops old ones, but not the last good"),
        Setting("report_to", stage.tracking, "tracking"),
        Setting("disable_tqdm", True, "progress is reported to the caller"),
    ]  # fmt: skip


def grpo(stage: Stage, machine: Machine) -> list[Setting]:
    """Arguments of TRL's GRPO trainer."""
    recipe = stage.recipe
    rollouts = recipe.tasks * recipe.group
    recipe.check(stage.processes)
    return [
        *common(stage, machine, rollouts),
        Setting("num_generations", recipe.group, "recipe"),
        Setting("generation_batch_size", rollouts, "all rollouts of a step come from its weights"),
        Setting("num_iterations", stage.updates, "recipe: iterations"),
        Setting("max_completion_length", machine.turns * recipe.max_tokens,
                "recipe: max_tokens in every turn"),
        Setting("temperature", recipe.temperature, "recipe"),
        Setting("beta", recipe.kl, "recipe: kl"),
        Setting("epsilon", recipe.clip_low, "recipe: clip_low"),
        Setting("epsilon_high", recipe.clip_high, "recipe: clip_high"),
        Setting("entropy_coef", recipe.entropy, "recipe: entropy"),
        Setting("loss_type", "grpo" if recipe.loss == "gspo" else recipe.loss, "recipe: loss"),
        Setting("importance_sampling_level",
                "sequence" if recipe.loss in ("gspo", "luspo") else "token",
                "gspo and luspo weigh whole answers"),
        Setting("scale_rewards", "none" if recipe.loss == "dr_grpo" else "group",
                "dr_grpo leaves the spread in, the others divide by it"),
        Setting("shuffle_dataset", False, "the engine orders tasks itself, by the stage's seed"),
        Setting("remove_unused_columns", False, "rows carry their task"),
        Setting("disable_dropout", True, "log-probabilities must repeat"),
        Setting("max_tool_calling_iterations", machine.calls,
                "the limit on turns: tools answer every turn but the last"),
        *vllm(stage, machine),
    ]  # fmt: skip


def vllm(stage: Stage, machine: Machine) -> list[Setting]:
    """Who draws the rollouts, if not our own generator."""
    generator = stage.recipe.generator
    if generator == "local":
        return [Setting("use_vllm", False, "recipe: generator")]
    if generator == "vllm":
        need_vllm(generator)
        return [
            Setting("use_vllm", True, "recipe: generator"),
            Setting("vllm_mode", "colocate", "vLLM runs in this process"),
            Setting("vllm_gpu_memory_utilization", VLLM_SHARE, "training needs the rest"),
        ]
    if not machine.cuda and not stage.recipe.rank:
        raise UserError(
            f"generator '{generator}': all weights go to a server by NCCL, which needs a GPU; set "
            "lora = 32, so that adapters go there, or use vllm or local here"
        )
    need_vllm(generator)
    return [
        Setting("use_vllm", True, "recipe: generator"),
        Setting("vllm_mode", "server", "an address was given"),
        Setting("vllm_server_base_url", generator, "recipe: generator"),
    ]


def need_vllm(generator: str) -> None:
    if find_spec("vllm") is None:
        raise UserError(f"generator '{generator}' needs a package: pip install vllm, or use local")


def warm(stage: Stage, machine: Machine, longest: int) -> list[Setting]:
    """Arguments of TRL's SFT trainer."""
    return [
        *common(stage, machine, stage.recipe.tasks, longest),
        Setting("max_length", longest, "the longest demonstration: none is cut"),
        Setting("packing", False, "demonstrations must not see each other"),
        Setting("dataset_kwargs", {"skip_prepare_dataset": True}, "the engine tokenises itself"),
        Setting("remove_unused_columns", False, "as above"),
    ]
