"""Small programs in the sandbox beside the same programs in plain subprocesses.

Both sides start one Python process per program, with the same interpreter and options, two at a
time, in turns of a few hundred so that whatever else the machine does falls on both. It also looks
for what is left behind: processes, files, mounts, open files. The exit code is 1 if a target is
missed: half the speed of plain subprocesses, no slower at the end than at the beginning, no trace.

    python benchmarks/sandbox.py            # 5,000 programs
    python benchmarks/sandbox.py --runs 500
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from coevolve.sandbox.bubblewrap import PYTHON, kind, stranger
from coevolve.sandbox.judge import program
from coevolve.sandbox.pool import close_pools

SOURCE = "numbers = [int(word) for word in input().split()]\nprint(sum(numbers), max(numbers))\n"
GIVEN, WANTED = "3 1 4 1 5 9 2 6\n", "31 9"
TURN = 250
LEAST_RATIO, FLAT = 0.5, 0.8


def plain(_: int) -> None:
    command = [PYTHON, "-I", "-S", "-c", SOURCE]
    done = subprocess.run(command, input=GIVEN, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == WANTED


def sandboxed(_: int) -> None:
    with program(SOURCE) as candidate:
        assert candidate.run(GIVEN).stdout.strip() == WANTED


def traces() -> dict[str, int]:
    """What could be left behind, counted."""
    return {
        "sandbox processes": sum(map(ours_still, Path("/proc").iterdir())),
        "mounts": len(Path("/proc/self/mounts").read_text().splitlines()),
        "temporary files": len(list(Path(tempfile.gettempdir()).glob("coevolve-*"))),
        "open files": len(os.listdir("/proc/self/fd")),
    }


def ours_still(entry: Path) -> bool:
    """Whether a process is a child of this one, or runs under a user id of this one's workers."""
    try:
        lines = (entry / "status").read_text().splitlines()
    except OSError:
        return False
    status = dict(line.split(":", 1) for line in lines)
    user, parent = int(status["Uid"].split()[0]), int(status["PPid"])
    return parent == os.getpid() or 0 <= user - stranger(0) < 128


def turn(work: Callable[[int], None], count: int, threads: int) -> float:
    """Programs a second."""
    began = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(count)))
    return count / (time.perf_counter() - began)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5_000)
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    sandboxed(0)
    close_pools()
    before = traces()
    turns = max(2, asked.runs // TURN)
    ours, theirs = [], []
    for number in range(turns):
        theirs.append(turn(plain, TURN, asked.threads))
        ours.append(turn(sandboxed, TURN, asked.threads))
        print(f"{(number + 1) * TURN:6}  plain {theirs[-1]:6.1f}/s  sandboxed {ours[-1]:6.1f}/s  "
              f"ratio {ours[-1] / theirs[-1]:.2f}", file=sys.stderr)  # fmt: skip
    close_pools()
    after = traces()
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    fourth = max(1, turns // 4)
    found = {
        "wall": kind(),
        "runs": turns * TURN,
        "threads": asked.threads,
        "plain_per_s": round(statistics.median(theirs), 1),
        "sandboxed_per_s": round(statistics.median(ours), 1),
        "ratio": round(statistics.median(ratios), 3),
        "ratio_of_turns": [round(min(ratios), 3), round(max(ratios), 3)],
        "last_to_first_quarter": round(
            statistics.median(ratios[-fourth:]) / statistics.median(ratios[:fourth]), 3
        ),
        "left_behind": {name: after[name] - before[name] for name in after},
    }
    print(json.dumps(found, indent=2))
    kept = found["ratio"] >= LEAST_RATIO and found["last_to_first_quarter"] >= FLAT
    return 0 if kept and not any(count > 0 for count in found["left_behind"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
