"""The one place where numba is imported: `@compiled` turns a function into machine code.

The first call compiles (about a minute for the whole lake); the machine code is then cached on
disk, in a folder named after a hash of all sources here that mention "compiled", since a function
must be compiled again when another one that it calls has changed. `lowest_bit` is the one
instruction that Python has no word for.
"""

import os
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from llvmlite import ir
from numba import config, njit
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])

Words = NDArray[np.uint64]
"""Sets of cells: one word per board row along the last axis."""
Table = NDArray[np.int64]


def cache_folder() -> Path:
    """Where machine code of exactly these sources is kept."""
    state = blake2b(digest_size=8)
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        text = source.read_bytes()
        if b"compiled" in text:
            state.update(text)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    folder = home / "coevolve" / "compiled" / state.hexdigest()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        user = os.getuid() if hasattr(os, "getuid") else "user"  # Windows has a folder for each
        folder = Path(tempfile.gettempdir()) / f"coevolve-{user}" / state.hexdigest()
    return folder


CACHE_FOLDER = cache_folder()
numba_config: Any = config


@cache
def announce(name: str) -> None:
    """Tell a person who is about to wait why, where this function has not been compiled yet."""
    if not any(CACHE_FOLDER.rglob(f"*.{name}-*")):
        print("compiling the lake's code: about a minute, the first time only", file=sys.stderr)


def make(function: Function, options: Any) -> Function:
    """numba's njit, with the cache in our own folder."""
    before, numba_config.CACHE_DIR = numba_config.CACHE_DIR, str(CACHE_FOLDER)
    try:
        return cast(Function, njit(cache=True, error_model="numpy", **options)(function))
    finally:
        numba_config.CACHE_DIR = before


def compiled(function: Function) -> Function:
    """Compile a function on its first call and cache the machine code on disk."""
    return make(function, {})


def kernel(function: Function) -> Function:
    """Like `compiled`, for inner functions that allocate nothing: arrays are not counted.

    Counting references costs several atomic operations per array and call, more than the work
    of most inner functions here.
    """
    return make(function, {"_nrt": False})


if TYPE_CHECKING:

    def lowest_bit(word: np.uint64) -> int:
        """Index of the lowest set bit of a non-zero 64-bit word."""
        ...

else:

    @intrinsic
    def lowest_bit(_context, _word):
        """Index of the lowest set bit of a non-zero 64-bit word."""

        def generate(_ctx, builder, _signature, args):
            return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

        return types.int64(types.uint64), generate
