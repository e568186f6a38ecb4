"""Will it fit? Memory and disk of a stage, reckoned before anything is loaded.

What is counted is what the engine does: float32 weights, gradients and Adam's two averages, keys
and values of the rows that are drawn together, and what a pass forward keeps for the way back. The
shares of a layer were fitted to peaks of Qwen2.5's shapes (benchmarks/memory.py).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from coevolve.core.disk import free
from coevolve.core.errors import UserError
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.engines.base import Stage
from coevolve.engines.stage import RANK, read
from coevolve.engines.trl import settings
from coevolve.engines.trl.folder import ADAPTER, KEPT
from coevolve.engines.trl.turns import plain_turns
from coevolve.policies.generate import graph_rows, rounded
from coevolve.policies.hardware import machine_memory, pick_device, size_by
from coevolve.policies.local import render
from coevolve.policies.models import PLAIN, find, named_trouble, style_in, under

FLOAT, HALF = 4, 2
"""Bytes of a number."""
KEPT_HIDDEN, KEPT_INNER = 30, 8
"""Bytes per token and layer that the way back needs, for each number of the hidden width and of the
inner width of its network."""
LOGITS = 5
"""Float32 tables of rows by vocabulary that are alive while a token is chosen."""
WRITTEN = 3.0
"""Bytes of a rollout on disk per token, about: text and columns, compressed."""
PROMPTS = 256
"""Of which the longest is looked for."""
GIB = 2**30
LITTLE = 1.0
"""GiB of memory, and of disk, below which nobody is told."""


class Shape(NamedTuple):
    """What memory depends on of a model."""

    parameters: int
    layers: int
    hidden: int
    inner: int
    cached: int
    """Numbers of a key, or of a value, in a layer: all heads together."""
    vocabulary: int
    linear: int
    """Inputs and outputs of all matrices that adapters are added to."""

    @property
    def size(self) -> str:
        return size_by(self.parameters)


class Room(NamedTuple):
    """What there is for a stage, in GiB."""

    memory: float
    """Of one GPU; without one, what each process may have of this machine's. 0: not known."""
    gpu: bool
    disk: float
    """That is free where the stage is kept."""


class Fit(NamedTuple):
    """What a stage takes, in GiB; memory is that of one process."""

    weights: float
    gradients: float
    optimiser: float
    copy: float
    """A whole model to draw with, beside weights in pieces."""
    cache: float
    """Keys and values, and the choice of tokens, while rollouts are drawn; kept for the next."""
    activations: float
    checkpoints: float
    """On disk, until the stage is done."""
    policy: float
    """On disk, for good."""
    rollouts: float
    """On disk, for good, if every answer is as long as it may be."""
    whole: float
    """Weights as each process loads them, where it keeps a part of them."""

    @property
    def fixed(self) -> float:
        """What there is at every moment of learning."""
        return self.weights + self.gradients + self.optimiser + self.copy

    @property
    def loading(self) -> float:
        """What there is before weights are cut."""
        return self.whole + self.copy

    @property
    def peak(self) -> float:
        return max(self.fixed + self.cache + self.activations, self.loading)

    def disk(self, trainings: int = 1) -> float:
        """Of so many, one after the other."""
        return self.saved(trainings) + trainings * self.rollouts

    def saved(self, trainings: int = 1) -> float:
        """The same without rollouts, which may be shorter."""
        return self.checkpoints + trainings * self.policy


def shape_of(folder: str) -> Shape:
    """The shape of a model, without its weights."""
    config = AutoConfig.from_pretrained(under(folder))
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    text = config.get_text_config()
    every = getattr(text, "num_attention_heads", None) or 1
    heads = getattr(text, "num_key_value_heads", None) or every
    width = getattr(text, "head_dim", None) or text.hidden_size // every
    head = model.get_output_embeddings()
    linear = [
        module.in_features + module.out_features
        for module in model.modules()
        if isinstance(module, torch.nn.Linear) and module is not head
    ]
    distinct = {id(weights): weights.numel() for weights in model.parameters()}
    return Shape(
        parameters=sum(distinct.values()),
        layers=text.num_hidden_layers,
        hidden=text.hidden_size,
        inner=getattr(text, "intermediate_size", None) or 4 * text.hidden_size,
        cached=heads * width,
        vocabulary=text.vocab_size,
        linear=sum(linear),
    )


def reckon(stage: Stage, shape: Shape, prompt: int, turns: int = 1, cuda: bool = True) -> Fit:
    """What a stage takes where its longest prompt has so many tokens; of a warm start, what there
    is at every moment."""
    recipe, size = stage.recipe, shape.size
    trained = recipe.rank * shape.linear if recipe.rank else shape.parameters
    rank_weights = trained if recipe.rank else 0
    mixed = cuda and size != "small"
    pieces = stage.processes if settings.shards(stage, size) else 1
    resting = HALF if settings.halves(stage, size, cuda) else FLOAT
    cache = activations = written = 0.0
    if stage.kind == "grpo":
        longest = prompt + turns * recipe.max_tokens
        rollouts = recipe.tasks * recipe.group
        at_once, _ = settings.passes(stage, size, rollouts, turns)
        tokens, rows = at_once * longest, min(recipe.own(rollouts, stage.processes), 2_048)
        # Float32 weights give keys in float32, since these are turned by their place in that;
        # values stay as they were computed.
        cached = shape.layers * shape.cached * (resting + (HALF if mixed else FLOAT))
        room = graph_rows(rows) * rounded(longest) * cached
        kept = KEPT_HIDDEN * shape.hidden + KEPT_INNER * shape.inner
        if not mixed:
            kept = kept * 3 // 2
        if size == "large":
            activations = tokens * (shape.layers * FLOAT * shape.hidden + kept)
        else:
            activations = tokens * shape.layers * kept
        if recipe.generator == "local":
            cache = room + LOGITS * FLOAT * rows * shape.vocabulary
        written = rollouts * recipe.steps * longest * WRITTEN
    saved = FLOAT * trained + 2 * FLOAT * trained
    checkpoints = min(KEPT + 1, -(-recipe.steps // settings.save_every(stage, size)))
    copied = pieces > 1 and stage.kind == "grpo"
    parts = (
        (resting * shape.parameters + FLOAT * rank_weights) / pieces,
        FLOAT * trained / pieces,
        2 * FLOAT * trained / pieces,
        (HALF if cuda else FLOAT) * shape.parameters if copied else 0,
        cache,
        activations + (HALF * trained if mixed else 0),
        (0 if stage.cluster.checkpoints else checkpoints * saved) + FLOAT * trained,
        FLOAT * trained,
        written,
        FLOAT * shape.parameters if pieces > 1 else 0,
    )
    return Fit(*(part / GIB for part in parts))


def fit_of(stage: Stage, tasks: Sequence[Task], domains: dict[str, Domain]) -> Fit:
    """What a stage takes with these tasks: some of their prompts are counted."""
    folder = find(stage.model)
    with named_trouble(stage.model, folder):
        tokenizer = AutoTokenizer.from_pretrained(folder)
        config = AutoConfig.from_pretrained(under(folder)).to_dict()
    if tokenizer.chat_template is None:
        tokenizer.chat_template = PLAIN
    lengths = [
        len(render(tokenizer, domains[task.domain].prompt(
            task, style_in(config, task.domain, stage.style)
        )))
        for task in tasks[:PROMPTS]
    ]  # fmt: skip
    return least_of(stage, max(lengths), plain_turns(domains, list(tasks)))


def least_of(stage: Stage, prompt: int = 0, turns: int = 1) -> Fit:
    """The same with prompts of so many tokens: what does not depend on them is known at once."""
    folder = find(stage.model)
    with named_trouble(stage.model, folder):
        shape = shape_of(folder)
    return reckon(adapted(stage), shape, prompt, turns, pick_device(stage.device).type == "cuda")


def adapted(stage: Stage) -> Stage:
    """With the rank of its model, where that is an adapter, which is trained on as it is."""
    adapter = Path(find(stage.model)) / ADAPTER
    if not adapter.is_file():
        return stage
    recipe = stage.recipe.model_copy(update={"lora": read(adapter).get("r", 0)})
    return stage.model_copy(update={"recipe": recipe})


def room_for(stage: Stage, here: bool = True) -> Room:
    """What there is for each process of a stage beside vLLM; of machines that train elsewhere only
    the disk is known."""
    gpu = pick_device(stage.device).type == "cuda"
    memory = gpu_memory() if gpu else machine_memory() / stage.processes
    if gpu and stage.recipe.generator == "vllm":
        memory *= 1 - settings.VLLM_SHARE
    return Room(memory / GIB if here else 0.0, gpu, free(stage.folder) / GIB)


def gpu_memory() -> int:
    """Bytes of the GPU that a process trains on."""
    total: int = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    return total


def refuse_misfit(fit: Fit, stage: Stage, room: Room) -> None:
    """Refuse a stage of which the fixed part alone is more than there is, or its weights before
    they are cut."""
    whose = "a GPU has" if room.gpu else "this machine has, for each process,"
    if not room.memory or max(fit.fixed, fit.loading) <= room.memory:
        return
    if fit.fixed <= room.memory:
        raise UserError(
            f"this cannot fit: each process loads all weights, {gib(fit.whole)} GiB of memory, and "
            f"makes a copy to draw with, {gib(fit.copy)}, before it keeps its part of them, and "
            f"{whose} {gib(room.memory)}; take a smaller model"
        )
    hints = [] if stage.recipe.rank else [f"set lora = {RANK}"]
    if not room.gpu:
        hints += ["lower processes"] if stage.processes > 1 else []
    elif stage.processes == 1:
        hints.append("train on several GPUs (processes), which share the weights")
    elif stage.sharding == "none":
        hints.append("set sharding = full")
    hints.append("take a smaller model")
    copy = f" and a copy to draw with {fit.copy:.1f}" if fit.copy else ""
    raise UserError(
        f"this cannot fit: weights {fit.weights:.1f}, gradients {fit.gradients:.1f}, optimiser "
        f"{fit.optimiser:.1f}{copy} GiB of memory, and {whose} {room.memory:.1f}; "
        f"{', or '.join(hints)}"
    )


def refuse_full(fit: Fit, stage: Stage, room: Room, trainings: int = 1) -> None:
    """Refuse trainings whose checkpoints alone are more than the disk has room for."""
    if fit.saved(trainings) <= room.disk:
        return
    of = "a training" if trainings == 1 else f"{trainings} trainings"
    hints = [] if stage.recipe.rank else [f"set lora = {RANK}"]
    hints += ["train fewer versions"] if trainings > 1 else []
    raise UserError(
        f"this cannot fit: checkpoints of {of} take {gib(fit.saved(trainings))} GiB of disk, and "
        f"{stage.folder} has room for {gib(room.disk)}; "
        f"{', or '.join(['make room there', 'name another folder', *hints])}"
    )


def doubts(fit: Fit, stage: Stage, room: Room, trainings: int = 1) -> list[str]:
    """Why something may not fit that could, and what to change."""
    found = []
    if 0 < room.memory < fit.peak:
        longest = " or max_tokens" if stage.kind == "grpo" else ""
        lora = "" if stage.recipe.rank else f", or set lora = {RANK}"
        found.append(f"this may not fit: lower micro_batch{longest}{lora}")
    if fit.disk(trainings) > room.disk:
        found.append("the disk may be too small: make room there")
    return found


def foreseen(fit: Fit, stage: Stage, room: Room, trainings: int = 1) -> str:
    """What trainings will take, in a line; empty where that is little. What cannot fit is
    refused."""
    refuse_misfit(fit, stage, room)
    refuse_full(fit, stage, room, trainings)
    disk, beware = fit.disk(trainings), doubts(fit, stage, room, trainings)
    if not beware and disk < LITTLE and (fit.peak < LITTLE or not room.memory):
        return ""
    warm = stage.kind == "warm"
    about, what = ("at least", "checkpoints") if warm else ("about", "checkpoints and rollouts")
    says = [f"{what} {about} {gib(disk)} GiB of disk, {gib(room.disk)} are free"]
    if room.memory:
        parts = {
            "weights": fit.weights, "gradients": fit.gradients, "optimiser": fit.optimiser,
            "a copy to draw with": fit.copy, "drawing": fit.cache, "a pass": fit.activations,
        }  # fmt: skip
        told = ", ".join(f"{name} {gib(one)}" for name, one in parts.items() if one >= 0.05)
        whose = "GPU memory" if room.gpu else "memory"
        whose += " that vLLM leaves" if room.gpu and stage.recipe.generator == "vllm" else ""
        adapters = f" with adapters of rank {stage.recipe.rank}" if stage.recipe.rank else ""
        needs = f"a step{adapters} needs {about} {gib(fit.peak)} of {gib(room.memory)} GiB"
        says.insert(0, f"{needs} of {whose} ({told})")
    return "; ".join([*says, *beware])


def gib(size: float) -> str:
    return f"{size:.0f}" if size >= 10 else f"{size:.1f}"
