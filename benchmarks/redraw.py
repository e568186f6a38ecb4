"""Whether drawing dead groups again pays at equal rollouts: the pocket policy, several seeds.

    python benchmarks/redraw.py [--seeds 4] [--times 0 2] [--steps 40] [--group 8]
        [--rate 5e-5] [--count 400] [--folder runs/redraw] [--json FILE]

Every seed trains on tasks of its own, with as many rollouts for each number of times; all are
measured on the same dev tasks, by drawing. Most boards have five agents, which the policy hardly
ever solves: most of their groups are dead. Intervals are over seeds (Student's t),
paired with the first number of times. Stages that are done are not trained again.
"""

import argparse
import json
from pathlib import Path
from statistics import fmean
from typing import Any

from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.domains.registry import get_domain
from coevolve.engines.base import Stage
from coevolve.engines.trl.engine import TrlEngine
from coevolve.engines.trl.folder import StageFolder
from coevolve.evaluation.attempts import attempts
from coevolve.evaluation.seeds import student
from coevolve.harness.recipe import Recipe
from coevolve.policies.base import Sampling
from coevolve.policies.local import LocalPolicy
from coevolve.policies.models import load

LAKE = get_domain("lake")
KNOBS = LAKE.space.parse(
    {"agents2.share": 0.4, "agents5.share": 0.6, "size3.data_ratio": 0, "size4.data_ratio": 1}
)


def rate(policy: str, count: int) -> float:
    """The share of drawn answers to dev tasks that are valid."""
    tasks = list(LAKE.generate(KNOBS, count, 5, Split.DEV))
    sampling = Sampling(temperature=1.0, max_tokens=64, seed=5)
    loaded = load(policy, "")
    drawn = attempts(
        LAKE, LocalPolicy(policy, loaded=loaded), tasks, sampling, style=loaded.style("lake"),
        samples=2, batch=256,
    )  # fmt: skip
    return fmean(one.outcome.valid for one in drawn)


def trained(arguments: argparse.Namespace, seed: int, times: int) -> dict[str, Any]:
    """One stage, and what came of it."""
    recipe = Recipe(
        steps=arguments.steps, tasks=16, group=arguments.group, learning_rate=arguments.rate,
        max_tokens=64, redraw=times,
    )  # fmt: skip
    folder = arguments.folder / f"seed-{seed}-times-{times}"
    tasks = list(LAKE.generate(KNOBS, recipe.distinct, derive(seed, "tasks"), Split.TRAIN))
    stage = Stage(kind="grpo", model="pocket", recipe=recipe, seed=seed, folder=folder)
    result = TrlEngine().train(stage, tasks)
    lines = StageFolder(folder).lines()
    return {
        "seed": seed,
        "times": times,
        "steps": result.steps,
        "rollouts": result.rollouts,
        "stopped": result.stopped,
        "dead": fmean(line["dead"] for line in lines),
        "live": fmean(line.get("live", 1 - line["dead"]) for line in lines),
        "valid": rate(result.policy, arguments.count),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--times", type=int, nargs="+", default=[0, 2])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--rate", type=float, default=5e-5)
    parser.add_argument("--count", type=int, default=400, help="dev tasks, each tried twice")
    parser.add_argument("--folder", type=Path, default=Path("runs/redraw"))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    base, rows = rate("pocket", arguments.count), []
    print(f"untrained: valid {base:.3f}", flush=True)
    for seed in range(arguments.seeds):
        for times in arguments.times:
            rows.append(trained(arguments, seed, times))
            print("  ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}"
                            for k, v in rows[-1].items()), flush=True)  # fmt: skip
    by_times = {times: [row["valid"] for row in rows if row["times"] == times]
                for times in arguments.times}  # fmt: skip
    plain = by_times[arguments.times[0]]
    for times, own in by_times.items():
        changes = [one - other for one, other in zip(own, plain, strict=True)]
        mean, reach = student(changes) if len(own) > 1 else (changes[0], float("nan"))
        print(f"redraw {times}: valid {fmean(own):.3f}, {mean:+.3f} ± {reach:.3f} "
              f"against {arguments.times[0]} (n {len(own)})")  # fmt: skip
    if arguments.json:
        arguments.json.write_text(json.dumps({"base": base, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
