"""Grow a tree in children that are killed at random instants, until one of them ends well.

`python killed_tree.py FOLDER KILLS SEED` prints what the tree came to, and how often it was killed.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from pretended import TREE, Listed, make_run, temperature

from coevolve.loop.loop import run_loop
from coevolve.loop.run import Run

PATCHES = (
    temperature(0.7),
    {"factor": "reward", "value": "0 - tokens"},
    temperature(0.9),
    {"factor": "recipe.kl", "value": 0.1},
    {"factor": "recipe.kl", "value": 0.2},
)


def made(folder: Path) -> Run:
    return make_run(folder / "run", Listed(*PATCHES), **{**TREE, "versions": 5, "width": 2})


def grow(folder: Path) -> None:
    run_loop(made(folder))


def attempt(folder: Path, seconds: float | None) -> bool:
    """Grow in a child of ours, killed after so many seconds; whether it came to its end."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            grow(folder)
            code = 0
        finally:
            os._exit(code)
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            if os.waitstatus_to_exitcode(status) > 0:
                raise SystemExit("a child failed by itself")
            return os.waitstatus_to_exitcode(status) == 0
        if deadline is not None and time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            deadline = None
        time.sleep(0.002)


def facts(folder: Path) -> object:
    """Everything that was decided; times and places aside."""
    lineage = run_loop(made(folder))
    skills = sorted(path.read_text() for path in (folder / "skills").glob("*.toml"))
    return {
        "versions": [one.model_dump(mode="json") for one in lineage.versions],
        "gates": [
            one.gate.model_dump(mode="json", exclude={"spent": True, "scores": {"spent"}})
            for one in lineage.nodes
            if one.gate
        ],
        "best": lineage.best.model_dump(mode="json") if lineage.best else None,
        "skills": skills,
    }


def main() -> None:
    folder, kills, rng = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
    killed, trees, longest = 0, 0, 6.0
    found: list[object] = []
    while killed < kills or not found:
        place = folder / f"tree-{trees}"
        while not attempt(place, rng.uniform(0.0, longest) if killed < kills else None):
            killed += 1
        trees += 1
        found.append(facts(place))
    print(json.dumps({"killed": killed, "trees": found}))


if __name__ == "__main__":
    main()
