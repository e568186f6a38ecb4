"""Supervised training of the pocket policy on demonstrations, on a GPU or a CPU.

Invariants: the run is counted in steps, never in seconds, so that a seed determines it (to the last
bit on a CPU; on a GPU up to the order in which numbers are added). With demonstrations at hand it
needs numpy, torch and transformers, and nothing of any domain. A model folder is written beside its
final place and moved there in one step; what it replaces is a model folder with its `build.json`,
and only when that was asked for.
"""

import copy
import json
import os
import platform
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM

from coevolve.core.errors import UserError
from coevolve.core.seeds import derive
from coevolve.pocket import Progress, Watch, arrays, silent, vocabulary
from coevolve.pocket.arrays import Demonstrations
from coevolve.pocket.batches import Data, draw, make_batch, to_device
from coevolve.policies.models import without_bars

RECORD = "build.json"
MOST_FLOAT32_BYTES = 12_000_000
"""Larger models are saved in bfloat16."""
HEAD_WIDTH = 32
WARM_UP_STEPS = 200
AVERAGED_STEPS = 20
"""The loss is told as the mean over so many steps, and so often."""
FIRST_STEPS = 3
"""Told one by one, so that the time of the rest can be foreseen."""


@dataclass(frozen=True)
class Recipe:
    """What determines the weights, beside the demonstrations."""

    seed: int = 0
    steps: int = 1200
    batch: int = 1024
    learning_rate: float = 2.5e-3
    final_rate: float = 0.1
    """Share of the learning rate that is left at the last step."""
    width: int = 160
    layers: int = 4


def build(
    folder: Path,
    *,
    demonstrations: Path | None = None,
    snapshots: tuple[int, ...] = (),
    force: bool = False,
    progress: Watch = silent,
    **changes: Any,
) -> dict[str, Any]:
    """Train a model from scratch and write it to a transformers folder; returns its `build.json`.

    `changes` are those of the recipe.
    Without a file of demonstrations they are made first. A snapshot after STEP steps is a folder of
    its own, beside `folder`: NAME-stepSTEP.
    """
    recipe = Recipe(**changes)
    check_recipe(recipe, snapshots)
    folder = folder.resolve()
    places = {step: folder.with_name(f"{folder.name}-step{step}") for step in snapshots}
    for place in (folder, *places.values()):
        check_free(place, force)
    if demonstrations is not None:
        shown = arrays.read(demonstrations)
    else:
        from coevolve.pocket.demonstrations import make_demonstrations  # needs the domain

        shown = make_demonstrations(seed=recipe.seed, progress=progress)
    facts = {
        **asdict(recipe),
        "demonstrations": demonstrations and demonstrations.name,
        "demonstrations_count": shown.total,
        "demonstrations_sha256": shown.digest(),
        "snapshots": list(snapshots),
    }
    run = Run(recipe, shown)
    while run.step < recipe.steps:
        run.advance(progress)
        if run.step in places:
            save(places[run.step], run.model, facts | run.facts(), force)
    record = facts | run.facts()
    save(folder, run.model, record, force)
    return record


def check_recipe(recipe: Recipe, snapshots: tuple[int, ...]) -> None:
    """Refuse what cannot be trained, before time is spent."""
    for name in ("steps", "batch", "layers"):
        if getattr(recipe, name) < 1:
            raise UserError(f"{name} = {getattr(recipe, name)}; use 1 or more")
    if recipe.width < HEAD_WIDTH or recipe.width % HEAD_WIDTH:
        raise UserError(f"width = {recipe.width}; use a multiple of {HEAD_WIDTH}, such as 160")
    if not recipe.learning_rate > 0 or not 0 <= recipe.final_rate <= 1:
        raise UserError(
            f"learning_rate = {recipe.learning_rate:g}, final_rate = {recipe.final_rate:g}; use a "
            "rate above 0, such as 0.002, and a final share from 0 to 1"
        )
    for step in snapshots:
        if not 1 <= step <= recipe.steps:
            raise UserError(f"no snapshot at step {step}; steps go from 1 to {recipe.steps}")


def make_model(seed: int, width: int = 160, layers: int = 4) -> LlamaForCausalLM:
    """The pocket policy with fresh weights."""
    return fresh_llama(
        derive(seed, "pocket", "weights"), len(vocabulary.words()), width, layers, HEAD_WIDTH,
        vocabulary.MOST_TOKENS, pad=vocabulary.PAD, end=vocabulary.END,
        coevolve_styles={"lake": "cells", "engineering": "table"},
    )  # fmt: skip


def fresh_llama(
    seed: int, words: int, width: int, layers: int, head_width: int, positions: int,
    *, pad: int, end: int, **more: Any,
) -> LlamaForCausalLM:  # fmt: skip
    """A small Llama-shaped model; `more` goes into its config."""
    config = LlamaConfig(
        vocab_size=words,
        hidden_size=width,
        intermediate_size=width * 8 // 3 // 32 * 32,
        num_hidden_layers=layers,
        num_attention_heads=width // head_width,
        num_key_value_heads=width // head_width,
        max_position_embeddings=positions,
        tie_word_embeddings=True,
        pad_token_id=pad,
        eos_token_id=end,
        bos_token_id=None,
        **more,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)


def rate_share(step: int, steps: int, final_rate: float) -> float:
    """Share of the learning rate at a step, counted from 0: up in a line, then down in a line."""
    if step < WARM_UP_STEPS:
        return (step + 1) / WARM_UP_STEPS
    return 1 - (1 - final_rate) * (step + 1 - WARM_UP_STEPS) / (steps - WARM_UP_STEPS)


class Run:
    """A model on its way: a step at a time."""

    def __init__(self, recipe: Recipe, demonstrations: Demonstrations) -> None:
        self.recipe = recipe
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.data: Data = to_device(demonstrations, self.device)
        self.model = make_model(recipe.seed, recipe.width, recipe.layers)
        self.model.to(self.device)
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.98), weight_decay=0.01
        )
        self.generator = torch.Generator(self.device)
        self.generator.manual_seed(derive(recipe.seed, "pocket", "batches"))
        self.losses: list[torch.Tensor] = []
        self.began = time.perf_counter()

    @property
    def step(self) -> int:
        """Steps done."""
        return len(self.losses)

    def advance(self, progress: Watch) -> None:
        """One step of training."""
        recipe, step = self.recipe, self.step
        for group in self.optimiser.param_groups:
            group["lr"] = recipe.learning_rate * rate_share(step, recipe.steps, recipe.final_rate)
        tokens, labels = make_batch(self.data, draw(self.data, recipe.batch, self.generator))
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
            # Padding is on the right, where no token that counts can look: no mask, faster kernels.
            loss = self.model(input_ids=tokens, labels=labels, use_cache=False).loss
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.losses.append(loss.detach())
        done = self.step
        if done <= FIRST_STEPS or done % AVERAGED_STEPS == 0 or done == recipe.steps:
            progress(Progress("training", done, recipe.steps, self.loss()))

    def loss(self) -> float:
        """Mean loss of the last steps; asking a GPU for it waits for it, so it is asked rarely."""
        return float(torch.stack(self.losses[-AVERAGED_STEPS:]).mean())

    def facts(self) -> dict[str, Any]:
        """What is known of the run now, for its record."""
        cuda = self.device == "cuda"
        return {
            "step": self.step,
            "loss": round(self.loss(), 5),
            "parameters": self.model.num_parameters(),
            "seconds": round(time.perf_counter() - self.began, 1),
            "device": torch.cuda.get_device_name() if cuda else f"CPU, {platform.machine()}",
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }


def check_free(folder: Path, force: bool) -> None:
    """Refuse a folder that holds something, unless it is a model that may be replaced."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"{folder} is a file; name a folder")
    if not any(folder.iterdir()):
        return
    if not (folder / RECORD).is_file():
        raise UserError(f"{folder} is not empty and holds no model of ours; name another folder")
    if not force:
        raise UserError(f"{folder} holds a model; name another folder, or replace it with --force")


def save(folder: Path, model: LlamaForCausalLM, record: dict[str, Any], force: bool) -> None:
    """Write a transformers folder and its record, and put it in place."""
    check_free(folder, force)
    partial = folder.with_name(f".{folder.name}.partial")
    replaced = folder.with_name(f".{folder.name}.replaced")
    try:
        for left_over in (partial, replaced):
            shutil.rmtree(left_over, ignore_errors=True)
        partial.mkdir(parents=True)
        with without_bars():
            small = 4 * model.num_parameters() <= MOST_FLOAT32_BYTES
            (model if small else copy.deepcopy(model).bfloat16()).save_pretrained(partial)
        vocabulary.make_tokenizer().save_pretrained(partial)
        text = json.dumps(record, indent=2) + "\n"
        (partial / RECORD).write_text(text, encoding="utf-8")
        for file in partial.iterdir():  # weights are written for their owner alone
            file.chmod((partial / RECORD).stat().st_mode)
        if folder.exists():
            os.rename(folder, replaced)
        os.rename(partial, folder)
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if folder.exists():
            shutil.rmtree(replaced, ignore_errors=True)
