"""Finding rollouts by what was said in them. Texts are not kept in memory: files are read."""

import time
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coevolve.dashboard.web.folders import mark
from coevolve.dashboard.web.table import Columns, Table
from coevolve.store.rollouts import blocks

KEPT = 4_096
"""Files, each with the words it was searched for, whose answers are kept."""


def saying(
    table: Table, columns: Columns, places: NDArray[np.int64], words: str, most_s: float
) -> tuple[NDArray[np.int64], int]:
    """Those of the places in whose rollouts the words occur, in the same order, and how many were
    looked at before the time was up; files that cannot be read any more are left out."""
    import pyarrow

    end = time.monotonic() + most_s
    files = columns.file[places]
    found, seen = np.zeros(len(places), np.bool_), 0
    order = np.argsort(files, kind="stable")
    numbers, starts = np.unique(files[order], return_index=True)
    for number, own in zip(numbers.tolist(), np.split(order, starts[1:]), strict=False):
        if time.monotonic() > end:
            break
        _, path = table.files[table.names[number]]
        try:
            found[own] = occurs(path, mark(path), words)[columns.row[places[own]]]
        except (OSError, IndexError, pyarrow.ArrowException):
            continue
        seen += len(own)
    return places[found], seen


@lru_cache(KEPT)
def occurs(path: Path, _mark: object, words: str) -> NDArray[np.bool_]:
    """For every rollout of a file, whether any of its messages has the words, in any case."""
    from pyarrow import compute

    parts = []
    for block in blocks(path, ["messages"]):
        messages = block.column("messages").combine_chunks()
        texts = compute.struct_field(messages.flatten(), "content")
        hits = compute.match_substring(texts, words, ignore_case=True).fill_null(False)
        counted = np.concatenate(([0], np.cumsum(hits.to_numpy(zero_copy_only=False))))
        ends = messages.offsets.to_numpy() - messages.offsets[0].as_py()
        parts.append(counted[ends[1:]] > counted[ends[:-1]])
    return np.concatenate(parts) if parts else np.zeros(0, np.bool_)
