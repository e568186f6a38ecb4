"""Tasks made chunk by chunk, in this process or in several: the same tasks either way."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from typing import TypeVar

from coevolve.core.exit import follow_parent

Item = TypeVar("Item")
Make = Callable[[int, int], list[Item]]
"""The items number begin to end - 1, whatever was made before."""


def in_chunks(make: Make[Item], count: int, workers: int, chunk: int) -> Iterator[Item]:
    """Items 0 to count - 1 in order; `make` must be picklable where there are several workers."""
    chunks = ((begin, min(begin + chunk, count)) for begin in range(0, count, chunk))
    if workers <= 1 or count <= chunk:
        for begin, end in chunks:
            yield from make(begin, end)
        return
    spawn = get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn, initializer=follow_parent) as pool:
        running: list[Future[list[Item]]] = []
        try:
            while True:
                room = 2 * workers - len(running)
                for begin, end in islice(chunks, room):
                    running.append(pool.submit(make, begin, end))
                if not running:
                    return
                yield from running.pop(0).result()
        finally:
            for future in running:
                future.cancel()
