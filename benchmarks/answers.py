"""What judging answers to code takes: milliseconds an answer on two threads, and of processor time.

    python benchmarks/answers.py [--count 120]
    PYTHONPATH=OTHER/src python benchmarks/answers.py    # the same of another copy of the package

To compare two copies, run them in turns: machines are noisy.
"""

import argparse
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

from coevolve.core.splits import Split
from coevolve.domains.registry import get_domain

THREADS, SEED = 2, 5


def cpu_s() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=120)
    count = parser.parse_args().count
    domain = get_domain("code")
    tasks = list(domain.generate(domain.space.defaults(), count, SEED, Split.DEV))
    answers = [(task, domain.oracle(task)) for task in tasks]
    domain.verify(*answers[0])  # the first one waits for sandboxes to start
    began, spent = time.monotonic(), cpu_s()
    with ThreadPoolExecutor(THREADS) as pool:
        valid = sum(one.valid for one in pool.map(lambda pair: domain.verify(*pair), answers))
    wall, cpu = time.monotonic() - began, cpu_s() - spent
    found = {"valid": valid, "n": count, "ms": 1e3 * wall / count, "cpu_ms": 1e3 * cpu / count}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
