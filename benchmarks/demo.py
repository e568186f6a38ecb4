"""Does the engineer of the built-in demo help? Seed by seed: the gate with it, and with the tasks
left as they were, at equal rollouts; redesigns that were kept; and time.

    python benchmarks/demo.py [--seeds 5] [--first 0] [--folder F] [--json F]

Runs `coevolve run --seed N`, the same with the engineer `fixed`, and `coevolve report` of both, one
after the other; a run that is found in the folder goes on, or is only read. Fails unless in four
seeds of five a redesign was kept and the gate ended higher than without.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from command import coevolve

SHARE = 0.8
"""Of the seeds, in which the engineer has to help."""
KEEP = ("base", "final", "change", "versions", "seconds", "work_seconds", "orchestration")


def ran(folder: Path, seed: int, *more: str) -> dict[str, Any]:
    coevolve("run", "--seed", str(seed), "--output", str(folder), *more, live=True)
    found = coevolve("report", str(folder))
    return {name: found[name] for name in KEEP}


def last(found: dict[str, Any]) -> float:
    """The gate's rate of what a run ends with: the untrained policy where nothing was kept."""
    return float((found["final"] or found["base"])["rate"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="The first seed.")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp())
    rows: list[dict[str, Any]] = []
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        with_it = ran(folder / f"seed-{seed}", seed)
        without = ran(folder / f"fixed-{seed}", seed, "--set", 'engineers=["fixed"]')
        kept = [
            one for one in with_it["versions"][1:]
            if one["author"] == "policy" and not one["changed"].startswith("nothing")
            and one["verdict"].startswith("kept")
        ]  # fmt: skip
        start, end, left = with_it["base"]["rate"], last(with_it), last(without)
        rows.append({"seed": seed, "redesigns": len(kept), **with_it, "fixed": without})
        print(
            f"seed {seed}: gate {start:.1%} -> {end:.1%}, left alone {left:.1%} "
            f"({100 * (end - left):+.1f}); {len(kept)} redesigns kept; "
            f"{with_it['seconds']:.0f} s, orchestration {with_it['orchestration']:.1%}",
            flush=True,
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    helped = sum(row["redesigns"] > 0 and last(row) > last(row["fixed"]) for row in rows)
    print(f"the engineer helped in {helped} of {len(rows)} seeds")
    sys.exit(helped < SHARE * len(rows))


if __name__ == "__main__":
    main()
