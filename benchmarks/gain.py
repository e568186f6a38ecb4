"""What GRPO gains: the valid rate on the dev split before and after a stage, over several seeds.

    python benchmarks/gain.py [--model pocket] [--seeds 5] [--recipe NAME=VALUE ...] [--json FILE]

Every seed trains on tasks of its own; all are measured on the same dev tasks, greedily and by
drawing. The interval is over seeds (Student's t). Seeds that are done are not run again.
"""

import argparse
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from command import coevolve

from coevolve.evaluation.seeds import student

KNOBS = ("agents2.share=0.4", "agents3.share=0.3", "agents4.share=0.2", "agents5.share=0.1")
"""The mix of boards that is trained on and measured."""
RECIPE = ["steps=100", "learning_rate=5e-5", "max_tokens=128"]
"""What two cores do within five minutes."""


def knobs() -> list[str]:
    return [word for knob in KNOBS for word in ("--knob", knob)]


def rates(model: str, count: int, folder: Path) -> dict[str, float]:
    """Valid and optimal rate on the dev split, greedy and drawn."""
    found = {}
    for name, temperature in (("greedy", "0"), ("drawn", "1")):
        measured = coevolve(
            "evaluate", "--policy", model, "--split", "dev", "--count", str(count), *knobs(),
            "--seed", "5", "--temperature", temperature, "--max-tokens", "128",
            "--output", str(folder / name), "--batch", "256",
        )  # fmt: skip
        found[f"{name}_valid"] = measured["valid"]
        found[f"{name}_optimal"] = measured["optimal"]
    return found


def one_seed(arguments: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Train with one seed and measure."""
    folder = arguments.folder / f"seed-{seed}"
    words = [word for pair in arguments.recipe for word in ("--recipe", pair)]
    trained = coevolve(
        "train", "grpo", "--policy", arguments.model, "--seed", str(seed), *words, *knobs(),
        "--output", str(folder / "stage"), "--processes", str(arguments.processes),
    )  # fmt: skip
    measured = rates(trained["policy"], arguments.count, folder)
    return {"seed": seed, "seconds": trained["seconds"], "stopped": trained["stopped"], **measured}


def interval(values: list[float]) -> tuple[float, float, float]:
    """Mean and 95 % interval over seeds."""
    if len(values) < 2:
        return values[0], float("nan"), float("nan")
    mean, reach = student(values)
    return mean, mean - reach, mean + reach


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="pocket")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--at-once", type=int, default=1, help="seeds, and the base, side by side")
    parser.add_argument("--processes", type=int, default=1, help="of each seed")
    parser.add_argument("--count", type=int, default=1_000, help="dev tasks")
    parser.add_argument("--recipe", nargs="*", default=RECIPE)
    parser.add_argument("--folder", type=Path, default=Path("runs/gain"))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with ThreadPoolExecutor(arguments.at_once) as pool:
        before = pool.submit(rates, arguments.model, arguments.count, arguments.folder / "base")
        trained = [pool.submit(one_seed, arguments, seed) for seed in range(arguments.seeds)]
        base, rows = before.result(), [seed.result() for seed in trained]
    print(f"{arguments.model}, {' '.join(arguments.recipe)}; {arguments.count} dev tasks")
    print("base     " + "  ".join(f"{name} {value:.3f}" for name, value in base.items()))
    for row in rows:
        print(f"seed {row['seed']}   " + "  ".join(
            f"{name} {row[name]:.3f} ({row[name] - base[name]:+.3f})" for name in base)
            + f"  {row['seconds']:.0f} s")  # fmt: skip
    gains = {}
    for name in base:
        changes = [row[name] - base[name] for row in rows]
        mean, low, high = interval(changes)
        gains[name] = {"mean": mean, "low": low, "high": high, "n": len(changes),
                       "up": sum(change > 0 for change in changes)}  # fmt: skip
        print(f"gain in {name:14} {mean:+.3f} [{low:+.3f}, {high:+.3f}], up in "
              f"{gains[name]['up']} of {len(changes)} seeds")  # fmt: skip
    if arguments.json:
        whole = {"base": base, "seeds": rows, "gains": gains, "recipe": arguments.recipe}
        arguments.json.write_text(json.dumps(whole, indent=1))


if __name__ == "__main__":
    main()
