"""Certified tasks per CPU second that `generate` makes, beside the instances that POGEMA makes.

A task of ours carries an optimal plan, its cost and a proof whether waiting is needed; boards of
other splits and of the wrong kind are thrown away on the way. An instance of POGEMA is a random
board with reachable goals, about which nothing else is known.
"""

from collections.abc import Callable
from itertools import count

from measure import Row, Section, rate
from plans import HOLES, make_knobs
from processes import run_peer

from coevolve.core.splits import Split
from coevolve.domains.knobs import Knobs
from coevolve.domains.lake.generate import CHUNK, generate

WAIT_RATIOS = (0.5, 0.1)


def generate_chunk(knobs: Knobs) -> Callable[[], int]:
    """A chunk that generates tasks from a seed no earlier chunk has used."""
    seeds = count()

    def chunk() -> int:
        return sum(1 for _ in generate(knobs, CHUNK, next(seeds), Split.TRAIN))

    return chunk


def measure_generating(seconds: float) -> Section:
    report = run_peer("pogema", "pogema_generate.py", seconds)
    if report["settings"]["density"] != HOLES:
        raise SystemExit(f"POGEMA ran at density {report['settings']['density']}, not {HOLES}")
    rates = report["per_cpu_second"]
    grid = max(("grid", "config_and_grid"), key=lambda way: float(rates[way]))
    rows, unit = [], "tasks/s"
    for wait_ratio in WAIT_RATIOS:
        ours = rate(generate_chunk(make_knobs(wait_ratio)), seconds)
        what = f"8x8, 4 agents, certified, hole ratio {HOLES}, wait ratio {wait_ratio}"
        rows += [
            Row(what, ours, unit, f"POGEMA Grid ({grid})", rates[grid], 6),
            Row(what, ours, unit, "POGEMA's two inner functions", rates["functions"]),
        ]
    notes = [
        "Ours are solved to optimality and certified; POGEMA's are random boards with reachable "
        "goals. Its inner functions alone give bare arrays, without the Grid that it plays on.",
    ]
    return Section("generating", rows, notes, {"peers": {"pogema": report}})
