"""How time and memory grow with the number of tasks written: linear, and not at all.

Every count is measured in fresh processes; the least time of several is taken, since whatever else
happens on a machine only adds to it.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from measure import Row, Section
from processes import FOLDER, run_json

COUNTS = (1_000, 4_000, 16_000)
MILLION = 1_000_000
REPEATS = 3
TIMEOUT_S = 3600
MOST_SLOWDOWN = 1.25
"""Time per task at the largest count over that at the smallest."""
MOST_MIB = 8.0
"""Peak memory at the largest count beyond that at the smallest."""


def write_tasks(count: int, folder: Path) -> dict[str, Any]:
    """Time and peak memory of writing `count` tasks in a process of its own."""
    file = folder / "tasks.jsonl"
    script = str(FOLDER / "write_tasks.py")
    command = [sys.executable, script, "--count", str(count), "--output", str(file)]
    report = run_json(command, TIMEOUT_S)
    if report["lines"] != count:
        raise SystemExit(f"{report['lines']} tasks were written, {count} were asked for")
    return report


def measure_growth(counts: tuple[int, ...], repeats: int) -> Section:
    section = Section("growth")
    per_task, peak = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for count in counts:
            times = 1 if count >= MILLION else repeats
            reports = [write_tasks(count, Path(folder)) for _ in range(times)]
            per_task[count] = min(report["seconds"] for report in reports) / count
            peak[count] = max(report["peak_mib"] for report in reports)
            section.details[str(count)] = reports
    for count in counts:
        what = f"{count:,} tasks to a JSONL file"
        section.rows += [
            Row(what, 1e6 * per_task[count], "µs/task"),
            Row("  peak memory", peak[count], "MiB"),
        ]
    low, high = counts[0], counts[-1]
    between = f"{high:,} tasks over {low:,}"
    section.rows += [
        Row(f"time per task, {between}", per_task[high] / per_task[low], "x", most=MOST_SLOWDOWN),
        Row(f"peak memory, {between}", peak[high] - peak[low], "MiB more", most=MOST_MIB),
    ]
    section.notes = ["8x8, 4 agents, wait ratio 0.5, one process, tasks written as they are made."]
    return section
