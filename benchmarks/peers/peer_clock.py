"""What every peer measurement shares: one core, CPU time, one JSON line.

A peer is measured in the CPU time of its whole process, all threads counted, so neither a busy
machine nor a thread pool can move its rate.  Nothing outside the standard library is imported:
each peer runs in an environment of its own.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version


def argument_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser that knows the one option all peer scripts take."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--seconds",
        type=float,
        default=5.0,
        help="CPU seconds to measure each rate for, after its warm-up (default 5)",
    )
    return parser


def pin_to_one_core() -> None:
    """Keep this process, and the thread pools it has yet to start, on one allowed core."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def rate(chunk: Callable[[], int], seconds: float) -> float:
    """Items per CPU second of `chunk`, which does some work and returns how many items it did.

    The first call warms up (imports, compilation, caches) and is not counted.
    """
    chunk()
    items = 0
    elapsed = 0.0
    start = time.process_time()
    while elapsed < seconds:
        items += chunk()
        elapsed = time.process_time() - start
    return items / elapsed


def print_report(peer: str, settings: Mapping[str, object], rates: Mapping[str, float]) -> None:
    """Print the measurement as one line of JSON, rates in items per CPU second."""
    report = {
        "peer": peer,
        "version": version(peer),
        "settings": dict(settings),
        "per_cpu_second": {name: round(value, 1) for name, value in rates.items()},
    }
    print(json.dumps(report))
