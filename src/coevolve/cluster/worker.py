"""The process that does one piece of work: `python -m coevolve.cluster.worker WORK FOLDER`.

Invariant: it ends with the process that started it, however that ends. Its standard input is a pipe
that nobody writes to and that closes with its parent. Only its answer goes to the pipe that was its
standard output; what else is written there, by other programs too, goes to the log.
"""

import json
import os
import signal
import sys
from functools import partial
from pathlib import Path

from coevolve.cluster.base import perform
from coevolve.core.exit import follow_input


def stop(number: int, _frame: object) -> None:
    sys.exit(128 + number)


def main() -> None:
    signal.signal(signal.SIGTERM, stop)
    follow_input(end=partial(os.killpg, os.getpgrp(), signal.SIGKILL))
    answer = os.dup(1)
    os.dup2(2, 1)
    failure = perform(sys.argv[1], Path(sys.argv[2]))
    with open(answer, "w", encoding="ascii") as pipe:
        json.dump(failure, pipe)


if __name__ == "__main__":
    main()
