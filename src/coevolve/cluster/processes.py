"""Work in processes of this machine, a few side by side.

Started with WORK FOLDER, this module is such a process. Invariant: it ends with the one that
started it, however that ends. Its standard input is a pipe that nobody writes to and that closes
with its parent. Only its answer goes to the pipe that was its standard output; what else is written
there, by other programs too, goes to the log.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from coevolve.cluster.base import LOG, Ended, perform
from coevolve.core.exit import follow_input

Process = subprocess.Popen[str]
POLL_S = 0.3
OUT_OF_MEMORY = "out of memory"
"""In what work says that failed for want of it."""
GRACE_S = 10.0
"""How long a process may take to end by itself when it is told to."""


def side_by_side() -> int:
    """How many processes this machine takes: one for every two cores."""
    return max(1, (os.cpu_count() or 1) // 2)


class Processes:
    """Every folder gets a process of its own, so that memory and crashes stay apart."""

    def __init__(self, at_once: int = 0, retries: int = 2) -> None:
        self.at_once = at_once or side_by_side()
        self.retries = retries
        """How often work is begun again whose process was killed. Work that memory was too small
        for, beside others, is begun again with one less at once."""

    def run(
        self, work: str, folders: Sequence[Path], tick: Callable[[], None]
    ) -> Generator[Ended, None, None]:
        waiting, lost, room = deque(folders), Counter[Path](), self.at_once
        running: dict[Path, Process] = {}
        crowded: set[Path] = set()  # what has had others beside it since it was begun
        try:
            while waiting or running:
                while waiting and len(running) < room:
                    folder = waiting.popleft()
                    running[folder] = start(work, folder)
                    crowded |= set(running) if len(running) > 1 else set()
                for folder, process in list(running.items()):
                    if process.poll() is None:
                        continue
                    del running[folder]
                    failure = failure_of(process)
                    if killed_by(process) and lost[folder] < self.retries:
                        lost[folder] += 1
                        waiting.append(folder)
                    elif OUT_OF_MEMORY in failure.lower() and folder in crowded:
                        crowded.remove(folder)
                        room = max(1, min(room - 1, len(running)))
                        waiting.append(folder)
                    else:
                        yield Ended(folder, failure)
                tick()
                time.sleep(POLL_S)
        finally:
            stop(running.values())


def start(work: str, folder: Path) -> Process:
    """A process in a group of its own, so that it can be ended with all that it starts."""
    with (folder / LOG).open("a", encoding="utf-8") as log:
        return subprocess.Popen(
            [sys.executable, "-m", __spec__.name, work, str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            start_new_session=True,
        )  # fmt: skip


def failure_of(process: Process) -> str:
    """What a process that is over said about it."""
    with process:
        assert process.stdout is not None
        said = process.stdout.read()
    if process.returncode == 0:
        failure: str = json.loads(said)
        return failure
    if number := killed_by(process):
        return f"the process was killed by {signal.Signals(number).name}"
    return f"the process ended with {process.returncode}"


def killed_by(process: Process) -> int:
    """The signal that ended a process, 0 if none did; a worker ends by itself on SIGTERM."""
    if process.returncode == 128 + signal.SIGTERM:
        return signal.SIGTERM
    return max(0, -process.returncode)


def stop(processes: Collection[Process]) -> None:
    """End processes and whatever they started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        end = time.monotonic() + GRACE_S
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, end - time.monotonic()))
    for process in processes:
        process.__exit__(None, None, None)


def main() -> None:
    """Do one piece of work and write why it failed, if it did."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    follow_input(end=partial(os.killpg, os.getpgrp(), signal.SIGKILL))
    answer = os.dup(1)
    os.dup2(2, 1)
    failure = perform(sys.argv[1], Path(sys.argv[2]))
    with open(answer, "w", encoding="ascii") as pipe:
        json.dump(failure, pipe)


if __name__ == "__main__":
    main()
