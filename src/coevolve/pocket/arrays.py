"""Demonstrations as arrays, and the file they are kept in.

Invariant: all a demonstration holds is cells and words of one numbering (see the vocabulary), so
training needs neither the domains nor a solver.
"""

import zlib
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from coevolve.core.errors import UserError
from coevolve.core.files import replace_file

AGENTS, POSITIONS, HOLES, WORDS = 5, 32, 50, 216
"""The most that a demonstration has room for."""
NONE = 255
"""Fills the room that a demonstration does not need."""

BROKEN = (ValueError, KeyError, EOFError, AttributeError, TypeError, BadZipFile, zlib.error)
"""What numpy raises on files that are something else."""


class Demonstrations(NamedTuple):
    """Boards and one optimal plan each."""

    size: NDArray[np.uint8]
    """(count): cells along one side."""
    holes: NDArray[np.uint8]
    """(count, HOLES): cells in ascending order, then NONE."""
    plan: NDArray[np.uint8]
    """(count, POSITIONS, AGENTS): where each agent is at each time, starts first, goals last."""
    texts: NDArray[np.uint8]
    """(texts, WORDS): word ids of prompts of other domains and their answers, then NONE."""
    asked: NDArray[np.uint8]
    """(texts): how many of the words are the prompt."""

    @property
    def total(self) -> int:
        return len(self.size)

    def digest(self) -> str:
        """A hash of the contents, to tell whether two builds saw the same demonstrations."""
        state = sha256()
        for array in self:
            state.update(array.tobytes())
        return state.hexdigest()


def empty(count: int, texts: int = 0) -> Demonstrations:
    """Room for `count` boards and so many texts."""
    return Demonstrations(
        np.full(count, NONE, np.uint8),
        np.full((count, HOLES), NONE, np.uint8),
        np.full((count, POSITIONS, AGENTS), NONE, np.uint8),
        np.full((texts, WORDS), NONE, np.uint8),
        np.full(texts, 0, np.uint8),
    )


def write(demonstrations: Demonstrations, path: Path) -> None:
    """Write an .npz file that appears only when it is complete."""
    packed = BytesIO()
    np.savez_compressed(packed, **demonstrations._asdict())
    try:
        replace_file(path, packed.getvalue())
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None


def read(path: Path) -> Demonstrations:
    """Read what `write` wrote."""
    fix = "make it with `coevolve pocket demonstrations`"
    try:
        with np.load(path, allow_pickle=False) as file:
            found = Demonstrations(*(file[name] for name in Demonstrations._fields))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}; {fix}") from None
    except BROKEN:
        raise UserError(f"{path} holds no demonstrations; {fix}") from None
    shapes = [array.shape for array in found]
    count, texts = found.size.size, found.asked.size
    if not count or shapes != [array.shape for array in empty(count, texts)]:
        raise UserError(f"{path} holds {count} demonstrations of shapes {shapes}; {fix}")
    return found
