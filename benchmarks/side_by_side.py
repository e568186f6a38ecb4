"""How many GRPO steps a second several trainings do side by side on one GPU.

    python benchmarks/side_by_side.py [--trainings 8] [--steps 24] [--tasks 64] [--group 16]
        [--model pocket] [--json FILE]

Each is a process of its own on tasks of the lake, and they share the GPU through NVIDIA's MPS where
it is installed. Counted are the steps during which all of them train, the first of each left out;
wall time. Without a GPU the processes share the cores.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gpu import share_gpu


def train(arguments: argparse.Namespace) -> list[float]:
    """When each step of one training ended; all processes read the same clock."""
    from coevolve.core.splits import Split
    from coevolve.domains.registry import get_domain
    from coevolve.engines.base import Progress, Stage
    from coevolve.engines.trl.engine import TrlEngine
    from coevolve.harness.recipe import Recipe

    domain, seed = get_domain("lake"), arguments.seed
    recipe = Recipe(steps=arguments.steps, tasks=arguments.tasks, group=arguments.group)
    count = recipe.steps * recipe.tasks
    tasks = list(domain.generate(domain.space.parse({}), count, seed, Split.TRAIN))
    ends: list[float] = []

    def note(_: Progress) -> None:
        ends.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(
            kind="grpo", model=arguments.model, recipe=recipe, folder=Path(folder) / "stage",
            seed=seed, save_every=1_000,
        )  # fmt: skip
        TrlEngine().train(stage, tasks, note)
    return ends


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trainings", type=int, default=8)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--tasks", type=int, default=64)
    parser.add_argument("--group", type=int, default=16)
    parser.add_argument("--model", default="pocket")
    parser.add_argument("--seed", type=int, help="of one training, whose steps are printed")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.seed is not None:
        print(json.dumps(train(arguments)))
        return
    share_gpu()
    shape = [
        f"--{name}={getattr(arguments, name)}" for name in ("steps", "tasks", "group", "model")
    ]
    threads = str(max(1, (os.cpu_count() or 1) // arguments.trainings))
    running = [
        subprocess.Popen(
            [sys.executable, __file__, *shape, f"--seed={seed}"], stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": threads},
        )
        for seed in range(arguments.trainings)
    ]  # fmt: skip
    said = [one.communicate()[0] for one in running]
    if any(one.returncode for one in running):
        raise SystemExit("a training failed")
    ends = [json.loads(lines.splitlines()[-1]) for lines in said]
    began, ended = max(own[0] for own in ends), min(own[-1] for own in ends)
    counted = sum(began < end <= ended for own in ends for end in own)
    if ended <= began:
        raise SystemExit("they never trained all at once; give more --steps")
    pace = counted / (ended - began)
    rollouts = arguments.tasks * arguments.group
    print(f"{arguments.trainings} trainings of {arguments.model} side by side: {pace:.2f} steps of "
          f"{rollouts:,} rollouts a second in all, {counted} steps counted")  # fmt: skip
    if arguments.json:
        report = {"steps_per_s": pace, "counted": counted, "seconds": ended - began}
        arguments.json.write_text(json.dumps(report))


if __name__ == "__main__":
    main()
