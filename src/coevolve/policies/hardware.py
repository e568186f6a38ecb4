"""What the hardware does best: device, precision and threads, decided in one place.

Weights that are trained stay in float32, since small steps vanish in bfloat16; a GPU computes with
them in bfloat16, and holds those below adapters in it. On CPUs everything is float32: bfloat16 ran
50 to 100 times slower there.
"""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from coevolve.core.errors import UserError
from coevolve.policies.models import LARGE

SMALL = 20_000_000
"""Parameters below which a model is all overhead: threads and casts cost more than they save."""
BOUNDS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where Linux says how much memory a container may use, by number or `max`."""


def pick_device(wanted: str = "") -> torch.device:
    """`wanted`, or COEVOLVE_DEVICE, or the fastest there is."""
    name = wanted or os.environ.get("COEVOLVE_DEVICE", "")
    if not name:
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
        found = ", ".join(["cpu", *(kind for kind, is_there in there.items() if is_there)])
        raise UserError(
            f"cannot compute on device '{name}': torch finds {found} here (see coevolve doctor); "
            "take one of these"
        ) from None
    return device


def pick_dtype(device: torch.device, training: bool) -> torch.dtype:
    """The type that weights are held in."""
    if training or device.type == "cpu":
        return torch.float32
    if device.type == "cuda" and torch.cuda.is_bf16_supported():
        return torch.bfloat16
    return torch.float16


def machine_memory() -> int:
    """Bytes of memory that this machine has, or the container that this is; 0: not known."""
    found = []
    with suppress(ValueError, OSError, AttributeError):  # Windows does not tell
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for file in BOUNDS:
        with suppress(ValueError, OSError):
            found.append(int(Path(file).read_text("ascii")))
    return max(0, min(found, default=0))


def parameters(model: Any) -> int:
    return sum(weights.numel() for weights in model.parameters())


def is_small(model: Any) -> bool:
    return parameters(model) < SMALL


def size_of(model: Any) -> str:
    """small, middle or large: what plans of memory and time depend on."""
    return size_by(parameters(model))


def size_by(count: int) -> str:
    """The same for so many parameters."""
    return "small" if count < SMALL else "middle" if count < LARGE else "large"


def mixes(model: Any) -> bool:
    """Whether float32 weights, or some of them, are computed with in bfloat16."""
    if next(model.parameters()).device.type != "cuda" or is_small(model):
        return False
    exact = any(weights.dtype == torch.float32 for weights in model.parameters())
    return exact and bool(torch.cuda.is_bf16_supported())


def in_bfloat16(model: Any) -> bool:
    """Whether weights are computed with in bfloat16, however they are held."""
    return next(model.parameters()).dtype == torch.bfloat16 or mixes(model)


@contextmanager
def computing(model: Any, autocast: bool = True) -> Iterator[None]:
    """The settings under which this model runs fastest; what was set before comes back after."""
    if mixes(model) and autocast:
        # Casts must not be cached: the weights change between calls, and graphs are captured here.
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            yield
        return
    if next(model.parameters()).device.type != "cpu" or not is_small(model):
        yield
        return
    threads = torch.get_num_threads()
    library: Any = torch.backends.mkldnn
    onednn = library.enabled
    torch.set_num_threads(1)
    # On ARM, oneDNN multiplies small matrices two to four times slower than OpenBLAS does.
    library.enabled = onednn and platform.machine() != "aarch64"
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        library.enabled = onednn
