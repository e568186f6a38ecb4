"""Work that is done beside the command, and may be left behind when it ends."""

import os
import sys
import threading
from collections.abc import Callable

BESIDE = "coevolve, beside"


def beside(work: Callable[[], None]) -> threading.Thread:
    """A thread that has begun; the command does not wait for it at its end."""
    thread = threading.Thread(target=work, daemon=True, name=BESIDE)
    thread.start()
    return thread


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
