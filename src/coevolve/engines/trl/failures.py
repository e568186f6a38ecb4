"""What goes wrong around a stage, in words: memory, the disk, and damaged checkpoints."""

from collections.abc import Iterator
from contextlib import contextmanager
from json import JSONDecodeError
from pickle import UnpicklingError

import torch
from safetensors import SafetensorError

from coevolve.core.errors import EngineError
from coevolve.engines.base import Stage
from coevolve.engines.trl import settings
from coevolve.engines.trl.folder import StageFolder
from coevolve.policies.hardware import parameters, size_of
from coevolve.policies.models import Loaded


@contextmanager
def named_failures(stage: Stage, folder: StageFolder, loaded: Loaded, turns: int) -> Iterator[None]:
    """Say what ran out, with the numbers that matter and the setting to change."""
    try:
        yield
    except (torch.cuda.OutOfMemoryError, MemoryError) as error:
        raise EngineError(out_of_memory(stage, folder, loaded, turns, error)) from None
    except RuntimeError as error:  # torch has no types of its own for these
        if "allocate memory" in str(error):
            raise EngineError(out_of_memory(stage, folder, loaded, turns, error)) from None
        if "PytorchStreamWriter" in str(error):
            raise EngineError(cannot_write(folder, error)) from None
        raise
    except (OSError, SafetensorError) as error:
        if isinstance(error, ConnectionError) or type(error).__module__.startswith("requests"):
            words = f"cannot reach {stage.recipe.generator}: {error}. {kept(folder)}"
            raise EngineError(words) from None
        raise EngineError(cannot_write(folder, error)) from None


@contextmanager
def named_damage(folder: StageFolder) -> Iterator[None]:
    """Say which checkpoint cannot be read, if nothing was done since it was to be."""
    try:
        yield
    except (EOFError, UnpicklingError, JSONDecodeError, SafetensorError, RuntimeError) as error:
        last, words = folder.last(), str(error)
        of_something_else = isinstance(error, RuntimeError) and "PytorchStreamReader" not in words
        if of_something_else or last is None or len(folder.lines()) > last[0]:
            raise
        raise EngineError(
            f"{last[1]} is damaged ({words[:120]}); delete it, and the same command goes on from "
            "the checkpoint before it, or from the start"
        ) from None


def cannot_write(folder: StageFolder, error: Exception) -> str:
    return f"cannot write to {folder.path}: {error}. Is the disk full? {kept(folder)}"


def kept(folder: StageFolder) -> str:
    """What is safe, and how to go on."""
    last = folder.last()
    at = f"step {last[0]} is saved" if last else "nothing was saved yet"
    return f"{at}; the same command goes on from there"


def out_of_memory(
    stage: Stage, folder: StageFolder, loaded: Loaded, turns: int, error: Exception
) -> str:
    recipe = stage.recipe
    rollouts = recipe.tasks * (recipe.group if stage.kind == "grpo" else 1)
    kind = size_of(loaded.model)
    at_once, _ = settings.passes(stage, kind, rollouts, turns, loaded.context)
    used, begin = "", "Set"
    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        own, others = torch.cuda.max_memory_allocated(), total - free - torch.cuda.memory_reserved()
        used = "{:.1f} of {:.1f} GiB used, {:.1f} by other processes; ".format(
            *(size / 2**30 for size in (own, total, others))
        )
        begin = "Run fewer processes side by side, or set" if others > own else begin
    lower = f"micro_batch = {max(1, at_once // 2)}" if at_once > 1 else "lora = 16"
    size = f"{parameters(loaded.model) / 1e6:.0f}M parameters"
    adapters_too = "" if recipe.rank else ", or set lora = 16"
    return (
        f"OUT OF MEMORY: {used}{size}, {at_once} rollouts per pass, up to "
        f"{min(turns * recipe.max_tokens, loaded.context)} tokens each. {begin} {lower}, or lower "
        f"max_tokens{adapters_too}. {kept(folder)} ({str(error)[:120]})"
    )
