"""What the built-in demo gains, seed by seed: the gate before and after, time, and orchestration.

    python benchmarks/demo.py [--seeds 5] [--folder F] [--json F]

Runs `coevolve run --seed N` and `coevolve report` for each seed, one after the other; a run that is
found in the folder goes on, or is only read. Fails if fewer than four in five seeds gained.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from command import coevolve

SHARE = 0.8
"""Of the seeds, that have to gain."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp())
    rows = []
    for seed in range(arguments.seeds):
        run = folder / f"seed-{seed}"
        coevolve("run", "--seed", str(seed), "--output", str(run), live=True)
        found = coevolve("report", str(run))
        keep = ("base", "final", "change", "versions", "seconds", "work_seconds", "orchestration")
        rows.append({"seed": seed, **{name: found[name] for name in keep}})
        change, authors = found["change"], [one["author"] for one in found["versions"][1:]]
        print(
            f"seed {seed}: gate {found['base']['rate']:.1%} -> {found['final']['rate']:.1%} "
            f"({100 * change['mean']:+.1f} [{100 * change['low']:+.1f}, "
            f"{100 * change['high']:+.1f}], n {change['n']}), "
            f"knobs by {', '.join(authors)}; {found['seconds']:.0f} s, "
            f"orchestration {found['orchestration']:.1%}",
            flush=True,
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    up = sum(row["final"]["rate"] > row["base"]["rate"] for row in rows)
    print(f"up in {up} of {len(rows)} seeds")
    sys.exit(up < SHARE * len(rows))


if __name__ == "__main__":
    main()
