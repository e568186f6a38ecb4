"""Does the built-in tree climb? Seed by seed: what it ends with beside no training and beside its
root, on test tasks that decided nothing; the changes that were kept; and time.

    python benchmarks/tree.py [--seeds 5] [--first 0] [--tasks 1500] [--folder F] [--json F]

Runs `coevolve evolve --seed N --at-once 2` and `coevolve final`, one after the other; a run that is
found in the folder goes on, or is only read. Fails unless in four seeds of five the last version is
better than no training and than the root, by intervals above 0, within 15 minutes.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from command import coevolve

SHARE = 0.8
"""Of the seeds, in which it has to climb."""
MOST_S = 900.0


def climbed(folder: Path, seed: int, tasks: int) -> dict[str, Any]:
    coevolve("evolve", "--seed", str(seed), "--at-once", "2", "-o", str(folder), live=True)
    report = coevolve("report", str(folder))
    final = coevolve("final", str(folder), "--tasks", str(tasks))
    kept = [
        one["changed"] for one in report["versions"]
        if one["verdict"].startswith("kept") and not one["changed"].startswith("nothing")
    ]  # fmt: skip
    return {"seed": seed, "kept": kept, "seconds": report["seconds"], "final": final}


def points(change: dict[str, float]) -> str:
    low, high = 100 * change["low"], 100 * change["high"]
    return f"{100 * change['mean']:+.1f} points [{low:+.1f}, {high:+.1f}]"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="The first seed.")
    parser.add_argument("--tasks", type=int, default=1_500)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp())
    rows = []
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        row = climbed(folder / f"seed-{seed}", seed, arguments.tasks)
        rows.append(row)
        final = row["final"]
        print(
            f"seed {seed}: {points(final['change']['valid'])} over no training, "
            f"{points(final['beyond']['valid'])} over the root; optimal "
            f"{points(final['change']['optimal'])}; kept: {'; '.join(row['kept'])}; "
            f"{row['seconds']:.0f} s",
            flush=True,
        )
        if arguments.json:
            arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    good = sum(
        min(row["final"][since]["valid"]["low"] for since in ("change", "beyond")) > 0
        for row in rows
    )
    slow = sum(row["seconds"] > MOST_S for row in rows)
    print(f"it climbed in {good} of {len(rows)} seeds; {slow} took more than {MOST_S:.0f} s")
    sys.exit(good < SHARE * len(rows) or slow > 0)


if __name__ == "__main__":
    main()
