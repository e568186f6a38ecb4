"""What the modules of paper 1 are worth to a language model that has learned to read them.

    python benchmarks/prose.py --folder F [--policy smollm2] [--variant V1 --variant V6] [--json F]

Teaches a copy of the model on lessons in every variant (`coevolve train warm`), and asks each copy,
and the model as it came, with every variant (`coevolve evaluate`, lessons that none has seen): mean
share of what the best design would gain, and how much more or less that is than where the copy is
asked as it was taught, lesson by lesson. With `--school`, all copies first go to one school: longer
lessons of the model in one variant, with recipe settings of its own (`--school-recipe`). What is
found in the folder goes on, or is only read. Wants a GPU; `--at-once` copies are taught and asked
side by side.

FOLDER/paper.toml is the comparison `paper` with these copies in the engineer's seat, each asked in
its own variant, as published and guarded: `coevolve compare FOLDER/paper.toml`.
"""

import argparse
import json
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from command import coevolve
from pyarrow.parquet import read_table
from rich.console import Console
from rich.table import Table
from tomli_w import dumps

from coevolve.engineers.context import VARIANTS
from coevolve.evaluation.seeds import student
from coevolve.harness.comparison import SHIPPED

MOST_TOKENS = 900
KEEP = ("n", "mean_reward", "mean_reward_interval", "valid", "failures", "mean_prompt_tokens")
UNTAUGHT = "untaught"


def taught(variant: str, policy: str, stage: Path, recipe: list[str]) -> str:
    """The model after lessons in a variant."""
    settings = [word for setting in recipe for word in ("-r", setting)]
    coevolve(
        "train", "warm", "-p", policy, "-d", "engineering", "--style", variant, "-o", str(stage),
        *settings,
    )  # fmt: skip
    return str((stage / "policy").resolve())


def seated(policies: dict[str, str]) -> str:
    """`paper` with an arm for every taught copy, as `published` and as `guarded`."""
    paper = tomllib.loads(SHIPPED["paper"].read_text())
    arms = paper["arms"]
    arms |= {
        f"{variant}{suffix}": {**arms[like], "engineers": [policy], "context": [variant]}
        for suffix, like in (("", "published"), ("-guarded", "guarded"))
        for variant, policy in policies.items()
    }
    return dumps(paper)


def asked(name: str, policy: str, variant: str, count: int, folder: Path) -> dict[str, Any]:
    """What a model answers to lessons in a variant."""
    file = folder / f"{name}-{variant}-{count}.json"
    if not file.exists():
        answers = folder / "answers" / file.stem
        found = coevolve(
            "evaluate", "-p", policy, "-d", "engineering", "--style", variant, "--split", "dev",
            "--count", str(count), "--temperature", "0", "--max-tokens", str(MOST_TOKENS),
            "-o", str(answers),
        )  # fmt: skip
        parts = read_table(sorted(answers.glob("*.parquet")), columns=["task_id", "reward"])
        rewards = [round(one, 3) for one in parts.sort_by("task_id")["reward"].to_pylist()]
        facts = {key: found[key] for key in KEEP}
        file.write_text(json.dumps({**facts, "rewards": rewards}))
    return {"taught": name, "asked": variant, **json.loads(file.read_text())}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--policy", default="smollm2", help="A model that can be trained.")
    parser.add_argument("--variant", action="append", choices=list(VARIANTS))
    parser.add_argument("--recipe", "-r", action="append", default=[], help="As of `train warm`.")
    parser.add_argument("--school", choices=list(VARIANTS))
    parser.add_argument("--school-recipe", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--lessons", type=int, default=100, help="Asked of each.")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    variants = arguments.variant or [name for name in VARIANTS if name != "V6-cases"]
    folder: Path = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    start = arguments.policy
    if arguments.school:
        start = taught(arguments.school, start, folder / "school", arguments.school_recipe)
    with ThreadPoolExecutor(arguments.at_once) as pool:
        policies = dict(
            zip(
                variants,
                pool.map(lambda one: taught(one, start, folder / one, arguments.recipe), variants),
                strict=True,
            )
        )
        (folder / "paper.toml").write_text(seated(policies))
        policies[UNTAUGHT] = arguments.policy
        pairs = [(name, variant) for name in policies for variant in variants]
        rows = list(
            pool.map(
                lambda pair: asked(pair[0], policies[pair[0]], pair[1], arguments.lessons, folder),
                pairs,
            )
        )
    table = Table(title=f"taught on (rows), asked with: mean reward, n {arguments.lessons}")
    for heading in ("taught on", *variants):
        table.add_column(heading)
    for name in policies:
        own = [row for row in rows if row["taught"] == name]
        as_taught = next((row for row in own if row["asked"] == name), None)
        table.add_row(name, *(words(row, as_taught) for row in own))
    Console().print(table)
    if arguments.json:
        facts = {
            "policy": arguments.policy, "recipe": arguments.recipe, "school": arguments.school,
            "school_recipe": arguments.school_recipe, "results": rows,
        }  # fmt: skip
        arguments.json.write_text(json.dumps(facts) + "\n")


def words(row: dict[str, Any], as_taught: dict[str, Any] | None) -> str:
    """The mean with its interval; what is asked in another way than it was taught, against that."""
    if as_taught in (None, row):
        low, high = row["mean_reward_interval"]
        return f"{row['mean_reward']:.2f} [{low:.2f}, {high:.2f}]"
    pairs = zip(row["rewards"], as_taught["rewards"], strict=True)
    more, reach = student([one - other for one, other in pairs])
    return f"{row['mean_reward']:.2f} ({more:+.2f} [{more - reach:+.2f}, {more + reach:+.2f}])"


if __name__ == "__main__":
    main()
