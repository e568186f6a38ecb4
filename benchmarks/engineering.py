"""Engineers on real rollouts: do they give a real trainee more to learn from?

    python benchmarks/engineering.py [--model pocket] [--settings 6] [--engineers frontier ...]

For each of several random settings of the lake's knobs, the model tries train tasks; every engineer
sees that evidence and proposes; the model tries fresh tasks of each proposal. Told: the change of
the real learning signal (mean variance of rewards within groups), with intervals over settings; and
how well a trainee fitted to the evidence alone foresees it.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from fit import Tried, fit
from scipy import stats

from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.domains.knobs import Knobs
from coevolve.domains.registry import get_domain
from coevolve.engineering import table
from coevolve.engineering.oracle import best_design
from coevolve.engineering.trainee import signal
from coevolve.engineers.base import Past, View, proposals_of
from coevolve.engineers.library import SkillLibrary
from coevolve.engineers.reach import apply
from coevolve.engineers.registry import ENGINEERS, make_engineer
from coevolve.evaluation.attempts import attempts
from coevolve.evaluation.seeds import student
from coevolve.harness.plan import make_plan
from coevolve.loop.create import model_engineer
from coevolve.policies.base import Sampling
from coevolve.policies.registry import get_policy
from coevolve.store.cells import Cell, cells_of, merged

LAKE = get_domain("lake")
REACH = 0.15
ASKED = make_plan({"context": ["F", "G"]}, "benchmark")
SAMPLES = 8


def tried(policy: Any, style: str, knobs: Knobs, count: int, seed: int) -> list[Cell]:
    """What the model makes of fresh train tasks."""
    tasks = list(LAKE.generate(knobs, count, seed, Split.TRAIN))
    sampling = Sampling(temperature=1.0, max_tokens=128, seed=seed)
    found = attempts(LAKE, policy, tasks, sampling, style=style, samples=SAMPLES, batch=512)
    return cells_of(found)


def spread(cells: list[Cell]) -> float:
    (whole,) = merged(cells, [])
    return whole.spread / whole.groups


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="pocket")
    parser.add_argument("--settings", type=int, default=6)
    parser.add_argument("--tasks", type=int, default=120)
    parser.add_argument("--engineers", nargs="*", default=["frontier", "target", "random"])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    policy, style = get_policy(arguments.model, LAKE)
    rows = []
    for number in range(arguments.settings):
        knobs = LAKE.space.random(derive(7, "setting", number))
        cells = tried(policy, style, knobs, arguments.tasks, derive(1, number))
        view = View(
            LAKE.space, knobs,
            (Past(number=0, knobs=dict(knobs), dev=(), train=tuple(cells), verdict="kept"),),
            {"round": 0, "rounds": 2},
        )  # fmt: skip
        trainee = fit([Tried(knobs, cells)])
        fresh = spread(tried(policy, style, knobs, arguments.tasks, derive(2, number)))
        for name in ("fitted oracle", *arguments.engineers):
            if name == "fitted oracle":
                offered = [row.share.name for row in table.rows(view)]
                after = apply(best_design(trainee, knobs, knobs, offered, REACH), knobs, REACH)
            else:
                ruled = name in ENGINEERS
                engineer = (
                    make_engineer(name)
                    if ruled
                    else model_engineer(name, policy, ASKED, SkillLibrary())
                )
                said = proposals_of(engineer.propose(view, number))[0]
                after = apply(said.patch.value if said.patch else {}, knobs, REACH)
            real = spread(tried(policy, style, after, arguments.tasks, derive(3, number)))
            foreseen = signal(trainee, after) / signal(trainee, knobs)
            rows.append({"setting": number, "engineer": name, "before": fresh, "after": real,
                         "gain": real / fresh - 1, "foreseen": foreseen - 1})  # fmt: skip
            print(f"{number} {name:14} real {real / fresh - 1:+.3f} foreseen {foreseen - 1:+.3f}",
                  flush=True)  # fmt: skip
    for name in ("fitted oracle", *arguments.engineers):
        gains = [row["gain"] for row in rows if row["engineer"] == name]
        mean, reach = student(gains) if len(gains) > 1 else (gains[0], 0.0)
        low, high = mean - reach, mean + reach
        print(f"{name:14} signal {mean:+.1%} [{low:+.1%}, {high:+.1%}], n {len(gains)}")
    agreement = stats.spearmanr([r["gain"] for r in rows], [r["foreseen"] for r in rows])
    print(f"real against foreseen: rank correlation {agreement.statistic:.2f}, n {len(rows)}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
