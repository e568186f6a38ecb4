"""The whole diagnostic suite over 10,000 to 1,000,000 rollouts, beside the same metrics in pandas.

    python benchmarks/diagnostics.py [--most 100000] [--json FILE]

Each side runs in a process of its own, on the same files, on two cores. Both must agree on every
reading. It fails if a target is missed.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measure import Row, Section
from processes import FOLDER, run_json
from table import conclude
from write_tasks import peak_mib

COUNTS = (10_000, 100_000, 1_000_000)
CORES = 2
MOST_S, MOST_MIB = 20.0, 4096.0
TIMEOUT_S = 3600
SAME = 1e-5
"""How far the two may differ; log-probabilities are stored in 32 bits."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=COUNTS[-1])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--side", choices=["duckdb", "pandas"], help="Measure one run and print.")
    parser.add_argument("--run", type=Path)
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps(measured(arguments.side, arguments.run)))
        return
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    section = compare([count for count in COUNTS if count <= arguments.most])
    conclude(section, "The diagnostic suite beside pandas, two cores", arguments.json)


def measured(side: str, run: Path) -> dict[str, Any]:
    """All readings of one side, and what they cost from opening the run on."""
    began, cpu = time.perf_counter(), time.process_time()
    if side == "duckdb":
        from coevolve.diagnostics.health import Diagnosis

        with Diagnosis(run) as diagnosis:
            health = diagnosis.health()
        readings = {
            finding.diagnostic.name: {
                reading.version: [reading.value, reading.n] for reading in finding.readings
            }
            for finding in health.findings
        }
    else:
        from pandas_diagnostics import measure

        readings = measure(run)
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
        "peak_mib": peak_mib(),
        "readings": readings,
    }


def compare(counts: list[int]) -> Section:
    from synthetic_run import write_run

    section = Section("diagnostics")
    script = str(FOLDER / "diagnostics.py")
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            written = write_run(run, count)
            sides = {
                side: run_json(
                    [sys.executable, script, "--side", side, "--run", str(run)], TIMEOUT_S
                )
                for side in ("duckdb", "pandas")
            }
        readings = agree(*(side.pop("readings") for side in sides.values()))
        ours, theirs = sides["duckdb"], sides["pandas"]
        section.details[str(written)] = sides
        last = count == COUNTS[-1]
        for what, key, unit, most in (
            (f"{written:,} rollouts, {readings} readings", "seconds", "s", MOST_S),
            ("  CPU time", "cpu_seconds", "s", None),
            ("  peak memory", "peak_mib", "MiB", MOST_MIB),
        ):
            section.rows.append(
                Row(
                    what,
                    ours[key],
                    unit,
                    peer="pandas",
                    theirs=theirs[key],
                    most=most if last else None,
                    less_is_better=True,
                )
            )
    section.notes = [
        f"{CORES} cores, wall time from opening the run to the last reading; half of the rollouts "
        "have one answer, half 4 to 10 turns with tools; both sides agree on every reading."
    ]
    return section


def agree(ours: dict[str, Any], theirs: dict[str, Any]) -> int:
    """How many readings there are, if they are the same on both sides."""
    count = 0
    if ours.keys() != theirs.keys():
        raise SystemExit(f"not on both sides: {sorted(ours.keys() ^ theirs.keys())}")
    for name, readings in ours.items():
        if readings.keys() != theirs[name].keys():
            raise SystemExit(f"{name}: {readings} and {theirs[name]}")
        for version, (value, n) in readings.items():
            other, m = theirs[name][version]
            if n != m or abs(value - other) > SAME * max(1.0, abs(other)):
                raise SystemExit(f"{name}, version {version}: {value} (n {n}), {other} (n {m})")
            count += 1
    return count


if __name__ == "__main__":
    main()
