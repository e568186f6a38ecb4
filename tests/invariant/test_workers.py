"""Worker processes end with the command that started them, also if that is killed."""

import time
from pathlib import Path

from processes import alive, finish, start

MAKING = """
import time
from coevolve.core.splits import Split
from coevolve.domains.registry import get_domain

lake = get_domain("lake")
made = lake.generate(lake.space.defaults(), 1_000_000, 0, Split.TRAIN, 2)
next(made)
print("ready", flush=True)
time.sleep(600)
"""


def test_workers_do_not_outlive_a_killed_command() -> None:
    process = start(MAKING)
    workers = children(process.pid)
    assert len(workers) >= 2
    finish(process, kill=True)
    end = time.monotonic() + 60
    while any(map(alive, workers)):
        assert time.monotonic() < end, "a worker outlived its parent"
        time.sleep(0.05)


def children(parent: int) -> list[int]:
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(child) for child in found.split()]
