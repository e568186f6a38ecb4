"""Warm workers: started ahead of need, each used for one job and then thrown away.

Invariant: all workers are started by one thread that lives as long as this process does, since a
worker dies with the thread that started it.
"""

import atexit
import os
import queue
import threading
from itertools import count

from coevolve.core.errors import CoevolveError, SandboxError
from coevolve.sandbox import bubblewrap
from coevolve.sandbox.bubblewrap import Bind
from coevolve.sandbox.process import Worker

Order = tuple[int, tuple[Bind, ...], "queue.SimpleQueue[Worker | CoevolveError]"]


class Pool:
    """Keeps `size` workers ready."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self.ready: queue.SimpleQueue[Worker | CoevolveError] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self.work, name="sandbox", daemon=True)
        self.thread.start()
        for _ in range(size):
            self.orders.put((64, (), self.ready))

    def work(self) -> None:
        """Start what is ordered, until told to stop."""
        slots = count()
        while (order := self.orders.get()) is not None:
            space_mb, binds, where = order
            try:
                where.put(Worker(next(slots), space_mb, binds))
            except CoevolveError as error:
                where.put(error)
            except OSError as error:
                where.put(SandboxError(f"cannot start a sandbox: {error.strerror}"))

    def take(self) -> Worker:
        """A warm worker; the next one is being started."""
        self.orders.put((64, (), self.ready))
        return opened(self.ready.get())

    def start(self, space_mb: int, binds: tuple[Bind, ...]) -> Worker:
        """A worker that sees more than others do."""
        where: queue.SimpleQueue[Worker | CoevolveError] = queue.SimpleQueue()
        self.orders.put((space_mb, binds, where))
        return opened(where.get())

    def close(self) -> None:
        """End all workers that nobody has taken."""
        self.orders.put(None)
        self.thread.join()
        while not self.ready.empty():
            worker = self.ready.get()
            if isinstance(worker, Worker):
                worker.end()


def opened(found: Worker | CoevolveError) -> Worker:
    if isinstance(found, CoevolveError):
        raise found
    return found.greet()


POOLS: dict[tuple[int, str], Pool] = {}
LOCK = threading.Lock()


def pool() -> Pool:
    """This process's own pool (a forked child must not use its parent's)."""
    key = (os.getpid(), bubblewrap.kind())
    with LOCK:
        if key not in POOLS:
            if key[1] == "bubblewrap":
                bubblewrap.program()
            POOLS[key] = Pool(os.cpu_count() or 1)
        return POOLS[key]


@atexit.register
def close_pools() -> None:
    """End this process's idle workers."""
    with LOCK:
        for key in [key for key in POOLS if key[0] == os.getpid()]:
            POOLS.pop(key).close()
