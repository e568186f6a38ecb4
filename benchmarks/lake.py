"""The lake beside its peers, on one core, in CPU time: one table, and exit code 1 for a miss.

    .venv/bin/python benchmarks/lake.py [--quick] [--json FILE] [--million] [--core N]

Peers run in environments of their own (benchmarks/.venvs, installed the first time), on the same
core, one after the other. Rates are items per second of CPU time of the whole process, after
warm-up and compilation.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from measure import Section
from table import print_table

PACKAGES = ("coevolve", "numba", "numpy", "w9-pathfinding")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="short runs, for a first look")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers to a file")
    parser.add_argument("--million", action="store_true", help="grow to a million tasks")
    parser.add_argument("--core", type=int, help="the core to run on (default: the last allowed)")
    return parser.parse_args()


def pin(core: int | None) -> int:
    """Keep this process and all that it starts on one core."""
    allowed = os.sched_getaffinity(0)
    chosen = max(allowed) if core is None else core
    if chosen not in allowed:
        raise SystemExit(f"--core {core} is not one of {sorted(allowed)}")
    os.sched_setaffinity(0, {chosen})
    return chosen


def measure_all(quick: bool, million: bool) -> list[Section]:
    # Imported only now, so that thread pools start on the one core.
    from generating import measure_generating
    from growth import COUNTS, MILLION, REPEATS, measure_growth
    from solving import measure_solving
    from stepping import measure_stepping
    from verifying import measure_verifying

    seconds = 0.5 if quick else 3.0
    counts = (*COUNTS, MILLION) if million else COUNTS
    parts: dict[str, Callable[[], Section]] = {
        "stepping": lambda: measure_stepping(seconds),
        "verifying": lambda: measure_verifying(seconds, 1024 if quick else 4096),
        "generating": lambda: measure_generating(seconds),
        "solving": lambda: measure_solving(10 if quick else 50),
        "growth": lambda: measure_growth(counts, 1 if quick else REPEATS),
    }
    sections = []
    for name, measure in parts.items():
        print(f"Measuring {name} ...", file=sys.stderr, flush=True)
        sections.append(measure())
    return sections


def as_json(sections: list[Section], core: int, quick: bool) -> str:
    """Everything that was measured, and on what."""
    report = {
        "machine": {"platform": platform.platform(), "core": core, "cores": os.cpu_count()},
        "python": platform.python_version(),
        "versions": {package: version(package) for package in PACKAGES},
        "quick": quick,
        "sections": {
            section.title: {
                "rows": [row.as_json() for row in section.rows],
                "notes": section.notes,
                "details": section.details,
            }
            for section in sections
        },
    }
    return json.dumps(report, indent=2) + "\n"


def main() -> int:
    arguments = parse_arguments()
    core = pin(arguments.core)
    sections = measure_all(arguments.quick, arguments.million)
    print_table(sections)
    if arguments.json:
        arguments.json.write_text(as_json(sections, core, arguments.quick), encoding="utf-8")
    missed = [row.what.strip() for part in sections for row in part.rows if row.passed is False]
    if missed:
        print(f"Missed {len(missed)}: {'; '.join(missed)}")
    else:
        print("All targets met.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
