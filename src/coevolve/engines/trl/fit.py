"""Will it fit? Memory per GPU and disk of a stage, reckoned before anything is loaded.

What is counted is what the engine does: float32 weights, gradients and Adam's two averages, keys
and values of the rows that are drawn together, and what a pass forward keeps for the way back. The
shares of a layer were fitted to peaks of Qwen2.5's shapes (benchmarks/memory.py).
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from coevolve.core.errors import UserError
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.engines.base import Stage
from coevolve.engines.trl import settings
from coevolve.engines.trl.turns import plain_turns
from coevolve.policies.generate import ROUND
from coevolve.policies.hardware import size_by
from coevolve.policies.local import render
from coevolve.policies.models import PLAIN, find, style_in, under

FLOAT, HALF = 4, 2
"""Bytes of a number."""
KEPT_HIDDEN, KEPT_INNER = 30, 8
"""Bytes per token and layer that the way back needs, for each number of the hidden width and of the
inner width of its network."""
LOGITS = 5
"""Float32 tables of rows by vocabulary that are alive while a token is chosen."""
CHECKPOINTS = 3
"""Of a stage, on disk at the same time: the last, the last good one, and one that is written."""
WRITTEN = 3.0
"""Bytes of a rollout on disk per token, about: text and columns, compressed."""
PROMPTS = 256
"""Of which the longest is looked for."""
GIB = 2**30


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


class Fit(NamedTuple):
    """What a stage takes, in GiB; memory is that of one GPU, or of this machine without one."""

    weights: float
    gradients: float
    optimiser: float
    copy: float
    """A whole model to draw with, beside weights in pieces."""
    cache: float
    """Keys and values, and the choice of tokens, while rollouts are drawn."""
    activations: float
    checkpoints: float
    """On disk."""
    rollouts: float
    """On disk."""

    @property
    def fixed(self) -> float:
        """What there is at every moment of learning."""
        return self.weights + self.gradients + self.optimiser + self.copy

    @property
    def peak(self) -> float:
        """Of drawing, or of learning, during which the buffers for drawing are kept."""
        drawing = self.weights + self.optimiser + self.copy + self.cache
        return max(drawing, self.fixed + self.cache / 2 + self.activations)

    @property
    def disk(self) -> float:
        return self.checkpoints + self.rollouts


def shape_of(folder: str) -> Shape:
    """The shape of a model, without its weights."""
    config = AutoConfig.from_pretrained(under(folder))
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    text = config.get_text_config()
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
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
    """What a stage of GRPO takes where its longest prompt has so many tokens."""
    recipe, size = stage.recipe, shape.size
    trained = recipe.lora * shape.linear if recipe.lora else shape.parameters
    rank_weights = trained if recipe.lora else 0
    mixed = cuda and size != "small"
    pieces = stage.processes if settings.shards(stage, size) else 1
    longest = prompt + turns * recipe.max_tokens
    rollouts = recipe.tasks * recipe.group
    at_once, _ = settings.passes(stage, size, rollouts, turns)
    tokens, rows = at_once * longest, min(recipe.own(rollouts, stage.processes), 2_048)
    # Keys are turned by their place in float32; values stay as they were computed.
    cached = shape.layers * shape.cached * (FLOAT + (HALF if mixed else FLOAT))
    room = 2 * rows * -(-longest // ROUND) * ROUND * cached
    kept = KEPT_HIDDEN * shape.hidden + KEPT_INNER * shape.inner
    if not mixed:
        kept = kept * 3 // 2
    if size == "large":
        activations = tokens * (shape.layers * FLOAT * shape.hidden + kept)
    else:
        activations = tokens * shape.layers * kept
    casts = HALF * trained if mixed else 0
    saved = FLOAT * trained + 2 * FLOAT * trained
    each = rollouts * recipe.steps * longest * WRITTEN
    parts = (
        FLOAT * (shape.parameters + rank_weights) / pieces,
        FLOAT * trained / pieces,
        2 * FLOAT * trained / pieces,
        (HALF if cuda else FLOAT) * shape.parameters if pieces > 1 else 0,
        room + LOGITS * FLOAT * rows * shape.vocabulary,
        activations + casts,
        CHECKPOINTS * saved + FLOAT * trained,
        each,
    )
    return Fit(*(part / GIB for part in parts))


def refuse_misfit(fit: Fit, stage: Stage, total: float) -> None:
    """Refuse a stage of which the fixed part alone is more than a GPU has, in GiB."""
    if fit.fixed <= total:
        return
    hints = [] if stage.recipe.lora else ["set lora = 32"]
    if stage.processes == 1:
        hints.append("train on several GPUs (processes), which share the weights")
    elif stage.sharding == "none":
        hints.append("set sharding = full")
    hints.append("take a smaller model")
    raise UserError(
        f"this cannot fit: weights {fit.weights:.1f}, gradients {fit.gradients:.1f}, optimiser "
        f"{fit.optimiser:.1f} and a copy to draw with {fit.copy:.1f} GiB, and a GPU has "
        f"{total:.1f}; {', or '.join(hints)}"
    )


def gpu_gib() -> float:
    """Memory of the GPU that a process trains on; 0 without one."""
    if not torch.cuda.is_available():
        return 0.0
    total: int = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    return total / GIB


def fit_of(stage: Stage, tasks: Sequence[Task], domains: dict[str, Domain]) -> Fit:
    """What a stage takes with these tasks: some of their prompts are counted."""
    folder = find(stage.model)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if tokenizer.chat_template is None:
        tokenizer.chat_template = PLAIN
    config = AutoConfig.from_pretrained(under(folder)).to_dict()
    lengths = [
        len(render(tokenizer, domains[task.domain].prompt(
            task, style_in(config, task.domain, stage.style)
        )))
        for task in tasks[:PROMPTS]
    ]  # fmt: skip
    turns = plain_turns(domains, list(tasks))
    return reckon(stage, shape_of(folder), max(lengths), turns, bool(gpu_gib()))
