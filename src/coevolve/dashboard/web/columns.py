"""Rollouts as arrays: a filter over a million of them is a few comparisons.

Invariant: all arrays have the same order and length; words are numbers that index a list of words.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Labels = dict[int, dict[str, str]]


class Words(NamedTuple):
    """A column of a few words; -1 stands for none."""

    codes: NDArray[np.int32]
    words: list[str]

    def at(self, index: int) -> str | None:
        code = int(self.codes[index])
        return None if code < 0 else self.words[code]

    def equal(self, word: str) -> NDArray[np.bool_]:
        return np.equal(self.codes, self.words.index(word) if word in self.words else -2)


class Columns(NamedTuple):
    """The light columns of all rollouts of a run."""

    file: NDArray[np.int32]
    row: NDArray[np.int32]
    version: NDArray[np.int32]
    step: NDArray[np.int32]
    group: NDArray[np.uint64]
    sample: NDArray[np.int32]
    bucket: NDArray[np.int32]
    reward: NDArray[np.float32]
    valid: NDArray[np.bool_]
    optimal: NDArray[np.bool_]
    tokens: NDArray[np.int32]
    source: Words
    failure: Words
    stop: Words
    task_id: Any
    """An Arrow array of text."""
    task: NDArray[np.int32]
    """The same number for the same task."""
    labels: Labels
    """Of each bucket."""

    def place(self, file: int, row: int) -> int | None:
        """Where a rollout is; None if it is not there."""
        first, last = np.searchsorted(self.file, (file, file + 1))
        at = int(first + np.searchsorted(self.row[first:last], row))
        return at if at < last and self.row[at] == row else None


def columns_of(table: Any, labels: Labels) -> Columns:
    """From an Arrow table whose rows are in order."""
    table = table.combine_chunks()
    found: dict[str, Any] = {
        name: table[name].to_numpy()
        for name in ("file", "row", "version", "step", "group", "sample", "bucket", "reward",
                     "valid", "optimal", "tokens")
    }  # fmt: skip
    found |= {name: words_of(table[name]) for name in ("source", "failure", "stop")}
    task, _ = encoded(table["task_id"])
    return Columns(**found, task_id=table["task_id"], task=task, labels=labels)


def words_of(column: Any) -> Words:
    codes, words = encoded(column)
    return Words(codes, words.to_pylist())


def encoded(column: Any) -> tuple[NDArray[np.int32], Any]:
    """A number for each value, and the values that they stand for."""
    found = column.dictionary_encode().combine_chunks()
    if hasattr(found, "chunk"):
        found = found.chunk(0)
    codes = found.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    return codes, found.dictionary
