"""What goes wrong around a stage, in words: memory, the disk, and damaged checkpoints."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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


@dataclass
class Pass:
    """What is computed at once: so many rows, of up to so many tokens that are learned from."""

    rows: int
    tokens: int


def pass_of(stage: Stage, loaded: Loaded, turns: int = 1, longest: int = 0) -> Pass:
    """What a stage computes at once; of demonstrations, `longest` is known once they are made."""
    recipe, size = stage.recipe, size_of(loaded.model)
    rollouts = recipe.tasks * (recipe.group if stage.kind == "grpo" else 1)
    rows, _ = settings.passes(stage, size, rollouts, turns, loaded.context, longest)
    return Pass(rows, longest or min(turns * recipe.max_tokens, loaded.context))


@contextmanager
def named_failures(
    stage: Stage, folder: StageFolder, loaded: Loaded, at_once: Pass
) -> Iterator[None]:
    """Say what ran out, with the numbers that matter and the setting to change."""
    try:
        yield
    except (torch.cuda.OutOfMemoryError, MemoryError) as error:
        raise EngineError(out_of_memory(stage, folder, loaded, at_once, error)) from None
    except RuntimeError as error:  # torch has no types of its own for these
        if "allocate memory" in str(error):
            raise EngineError(out_of_memory(stage, folder, loaded, at_once, error)) from None
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
    stage: Stage, folder: StageFolder, loaded: Loaded, at_once: Pass, error: Exception
) -> str:
    used, hints, rows = "", list[str](), at_once.rows
    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        own, others = torch.cuda.max_memory_allocated(), total - free - torch.cuda.memory_reserved()
        used = "{:.1f} of {:.1f} GiB used, {:.1f} by other processes; ".format(
            *(size / 2**30 for size in (own, total, others))
        )
        hints += ["run fewer processes side by side"] if others > own else []
    if rows > 1:
        fewer = max(n for n in range(1, rows // 2 + 1) if rows % n == 0)
        hints.append(f"set micro_batch = {fewer}")
    hints += ["lower max_tokens"] if stage.kind == "grpo" else []
    hints += ["take a smaller model"] if stage.recipe.rank else ["set lora = 16"]
    fix = ", or ".join(hints)
    size = f"{parameters(loaded.model) / 1e6:.0f}M parameters"
    what = "rollouts" if stage.kind == "grpo" else "demonstrations"
    return (
        f"OUT OF MEMORY: {used}{size}, {rows} {what} per pass, up to {at_once.tokens} tokens each. "
        f"{fix[0].upper()}{fix[1:]}. {kept(folder)} ({str(error)[:120]})"
    )
