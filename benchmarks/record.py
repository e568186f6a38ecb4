"""A comparison as it is kept in `results/`: rates instead of every task, and each arm as a multiple
of the reference, with what part of the way to `on-target` it went.

    python benchmarks/record.py comparison.json benchmarks/results/NAME.json --machine "one H200"
"""

import argparse
import datetime
import json
from pathlib import Path
from typing import Any

from coevolve.evaluation.seeds import student

UPPER = "on-target"
DIGITS = 4


def over_seeds(values: list[float]) -> dict[str, float]:
    mean, reach = student(values)
    return {name: round(value, DIGITS) for name, value in
            {"mean": mean, "low": mean - reach, "high": mean + reach}.items()}  # fmt: skip


def words(one: dict[str, float]) -> str:
    return f"{one['mean']:.2f} [{one['low']:.2f}, {one['high']:.2f}]"


def times(rows: list[dict[str, Any]], reference: str) -> dict[str, Any]:
    """Of every arm, seed by seed: its valid rate over the reference's."""
    rates: dict[str, dict[int, float]] = {}
    for row in rows:
        rates.setdefault(row["arm"], {})[row["seed"]] = row["valid"]
    below, above = rates[reference], rates.get(UPPER, {})
    found: dict[str, Any] = {}
    for arm, of in rates.items():
        seeds = sorted(of.keys() & below.keys())
        if arm == reference or len(seeds) < 2:
            continue
        found[arm] = {"n": len(seeds), **over_seeds([of[seed] / below[seed] for seed in seeds])}
        shared = [seed for seed in seeds if seed in above]
        if len(shared) > 1:
            way = [(of[one] - below[one]) / (above[one] - below[one]) for one in shared]
            found[arm]["way"] = over_seeds(way)
    return found


def by_kind(row: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Of every kind of task that was asked for, how many there are and the rates."""
    found: dict[str, dict[str, float]] = {}
    for kind in sorted(set(row["kinds"])):
        own = [place for place, one in enumerate(row["kinds"]) if one == kind]
        rates = {
            name: round(sum(row[name][place] for place in own) / len(own), DIGITS)
            for name in ("valid", "optimal")
        }
        found[kind] = {"n": len(own), **rates}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("comparison", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--machine", required=True)
    arguments = parser.parse_args()
    found = json.loads(arguments.comparison.read_text())
    for row in found["results"]:
        row["kinds"] = by_kind(row)
        for name in ("valid", "optimal"):
            row[name] = round(sum(row[name]) / len(row[name]), DIGITS)
        row["seconds"] = round(row["seconds"], 1)
    found["times_reference"] = times(found["results"], found["reference"])
    head = {"date": str(datetime.date.today()), "machine": arguments.machine}
    arguments.output.write_text(json.dumps({**head, **found}, indent=1) + "\n")
    for arm, ratio in found["times_reference"].items():
        print(f"{arm}: {words(ratio)} times {found['reference']}")
        if "way" in ratio:
            print(f"  of the way to {UPPER}: {words(ratio['way'])}")


if __name__ == "__main__":
    main()
