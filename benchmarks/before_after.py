"""A language model in GRPO on data that people know: before and after, on tests of their own.

    python benchmarks/before_after.py OUTPUT --model FOLDER --part gsm8k --train gsm8k_train.jsonl
        --test gsm8k_test.jsonl [--steps 100] [-r NAME=VALUE ...]
    python benchmarks/before_after.py OUTPUT --model FOLDER --part code --test HumanEval.jsonl.gz

gsm8k: trained on the train split of a data set with the judge `math`, tested on all of another
file. code: trained on generated programming tasks, tested on HumanEval. Both sides of the test are
greedy, and paired by task. Writes OUTPUT/PART.json.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd
from command import coevolve

from coevolve.evaluation.difference import paired

CODE = [
    *("-k", "steps.mean=0", "-k", "large.share=0", "-k", "function.share=1"),
    *("-k", "stdin.share=0", "-k", "examples.count=2"),
]
"""Tasks as HumanEval's: a function, no large inputs."""


def tested(policies: Sequence[str], domain: str, test: str, tokens: int, folder: Path) -> Any:
    """How each policy does on all tasks of a file, and the change from the first to the last."""
    found, sides = [], []
    for number, policy in enumerate(policies):
        kept = folder / f"test-{number}"
        found.append(coevolve(
            "evaluate", "-d", domain, "-p", policy, "--tasks", test, "--max-tokens", str(tokens),
            "--temperature", "0", "--batch", "512", "-o", str(kept),
        ))  # fmt: skip
        sides.append(pd.concat(map(pd.read_parquet, sorted(kept.glob("part-*.parquet")))))
    before, after = (side.groupby("task_id")["valid"].mean() for side in sides)
    change = paired(before.tolist(), after[before.index].tolist())
    names = ("n", "valid", "valid_interval", "failures", "mean_completion_tokens")
    rows = [{name: one[name] for name in names} for one in found]
    return {"before": rows[0], "after": rows[-1], "change": change.model_dump()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--part", choices=("gsm8k", "code"), required=True)
    parser.add_argument("--train", help="a file, for gsm8k")
    parser.add_argument("--test", required=True)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-r", "--recipe", action="append", default=[], metavar="NAME=VALUE")
    arguments = parser.parse_args()
    tokens = 320
    stage = arguments.output / arguments.part
    words = ["-d", f"data:{arguments.train}?judge=math"]
    if arguments.part == "code":
        words = ["-d", "code", *CODE]
    recipe = {
        "steps": arguments.steps, "tasks": 32, "group": 8, "max_tokens": tokens, "lora": 32,
        "learning_rate": 5e-5, **dict(word.split("=", 1) for word in arguments.recipe),
    }  # fmt: skip
    for name, value in recipe.items():
        words += ["-r", f"{name}={value}"]
    done = coevolve(
        "train", "grpo", "-p", arguments.model, *words, "--seed", str(arguments.seed),
        "-o", str(stage), live=True,
    )  # fmt: skip
    lines = [json.loads(line) for line in (stage / "steps.jsonl").read_text().splitlines()]
    domain = "math" if arguments.part == "gsm8k" else "code"
    policies = (arguments.model, str(stage / "policy"))
    tests = arguments.output / "tests" / arguments.part
    report = {
        "part": arguments.part,
        "recipe": recipe,
        "seconds": round(sum(line["seconds"] for line in lines), 1),
        "step_s": fmean(line["seconds"] for line in lines[1:]),
        "drawing_s": fmean(line["drawing_s"] for line in lines[1:]),
        "memory_gib": max(line.get("memory_gib", 0.0) for line in lines),
        "tokens": done["tokens"],
        "stopped": done["stopped"],
        "valid": [line["valid"] for line in lines],
        **tested(policies, domain, arguments.test, tokens, tests),
    }
    (arguments.output / f"{arguments.part}.json").write_text(json.dumps(report))
    print(json.dumps({name: value for name, value in report.items() if name != "valid"}, indent=1))


if __name__ == "__main__":
    main()
