"""The process that does one piece of work: `python -m coevolve.cluster.worker WORK FOLDER`.

Invariant: it ends with the process that started it, however that ends. Its standard input is a pipe
that nobody writes to and that closes with its parent.
"""

import json
import os
import signal
import sys
from functools import partial
from pathlib import Path

from coevolve.cluster.base import perform
from coevolve.core.leaving import follow_input


def stop(number: int, _frame: object) -> None:
    sys.exit(128 + number)


def main() -> None:
    signal.signal(signal.SIGTERM, stop)
    follow_input(end=partial(os.killpg, os.getpgrp(), signal.SIGKILL))
    failure = perform(sys.argv[1], Path(sys.argv[2]))
    print(json.dumps(failure), flush=True)


if __name__ == "__main__":
    main()
