"""How processes end: at once, although a thread computes, and with the one that started them."""

import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from multiprocessing import parent_process

BESIDE = "coevolve, beside"
Act = Callable[[], object]


def die() -> None:
    os._exit(1)


def beside(work: Callable[[], None]) -> threading.Thread:
    """A thread that has begun; the command does not wait for it at its end."""
    thread = threading.Thread(target=work, daemon=True, name=BESIDE)
    thread.start()
    return thread


def follow(gone: Act, end: Act = die) -> None:
    """End this process once `gone`, which waits for another one's end, has returned."""

    def wait() -> None:
        gone()
        end()

    threading.Thread(target=wait, daemon=True).start()


def follow_parent() -> None:
    """End with the process that started this one through multiprocessing, however that ends."""
    parent = parent_process()
    assert parent is not None
    follow(parent.join)


def follow_input(end: Act = die) -> None:
    """End with the process at the other end of standard input, a pipe that nobody writes to."""
    follow(partial(os.read, sys.stdin.fileno(), 1), end)


def leave(end: SystemExit) -> None:
    """End the process at once if a thread is left behind: one that computes with a model would
    abort it with a message of its own."""
    if not any(thread.name == BESIDE for thread in threading.enumerate()):
        return
    if isinstance(end.code, str):
        print(end.code, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))
