"""What the engine costs: GRPO steps of bare TRL and of the engine, same model, tasks and batch.

    python benchmarks/engine.py [--steps 6] [--model pocket] [--json FILE]

Both train in this process, in turns, on one thread where the model is small. Compared is CPU time
per step (GPU: wall time), without the first step of each. Evidence is what writing rollouts adds.
"""

import argparse
import json
import shutil
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from coevolve.core.splits import Split
from coevolve.domains.registry import get_domain
from coevolve.engines.base import Stage
from coevolve.engines.trl import recorder, settings
from coevolve.engines.trl.engine import TrlEngine, quiet, small_vocabulary
from coevolve.harness.recipe import Recipe
from coevolve.policies.hardware import computing
from coevolve.policies.models import load

LIMIT = 1.05
EVIDENCE_LIMIT = 0.03


def now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


class Clock(TrainerCallback):
    """Notes the time after every step."""

    def __init__(self) -> None:
        self.marks: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.marks.append(now())

    def steps(self) -> list[float]:
        return [after - before for before, after in pairwise(self.marks)]


def bare(stage: Stage, tasks: list[Any]) -> list[float]:
    """Seconds per step of TRL alone."""
    domain = get_domain("lake")
    loaded = load(stage.model, stage.device, training=True)
    style = loaded.style("lake")

    def reward(completions: list[Any], task: list[int], **_: Any) -> list[float]:
        return [
            domain.verify(tasks[index], answer[0]["content"]).reward
            for index, answer in zip(task, completions, strict=True)
        ]

    shown = [index % len(tasks) for index in range(stage.recipe.steps * stage.recipe.tasks)]
    prompts = [
        [message.model_dump() for message in domain.prompt(tasks[index], style)] for index in shown
    ]
    chosen = {
        setting.name: setting.value
        for setting in settings.grpo(stage, TrlEngine().machine(stage, loaded, 1))
    }
    clock = Clock()
    with quiet(), small_vocabulary(loaded), tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            loaded.model,
            reward_funcs=[reward],
            args=GRPOConfig(output_dir=folder, **{**chosen, "save_strategy": "no"}),
            train_dataset=Dataset.from_dict({"prompt": prompts, "task": shown}),
            processing_class=loaded.tokenizer,
            callbacks=[clock],
        )
        trainer.remove_callback(PrinterCallback)
        with computing(loaded.model, autocast=False):
            trainer.train()
    return clock.steps()


def engine(stage: Stage, tasks: list[Any]) -> tuple[list[float], float]:
    """Seconds per step of the engine, and what writing evidence took of them."""
    marks: list[float] = []
    spent: list[float] = []
    plain = recorder.write

    def timed(*args: Any) -> None:
        began = time.thread_time()
        plain(*args)
        spent.append(time.thread_time() - began)

    recorder.write = timed
    try:
        TrlEngine().train(stage, tasks, lambda _: marks.append(now()))
    finally:
        recorder.write = plain
    steps = [after - before for before, after in pairwise(marks)]
    return steps, statistics.mean(spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=16)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--model", default="pocket")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    domain = get_domain("lake")
    recipe = Recipe(
        steps=arguments.steps, tasks=arguments.tasks, group=arguments.group, max_tokens=128
    )
    count = arguments.steps * arguments.tasks
    tasks = list(domain.generate(domain.space.parse({}), count, 1, Split.TRAIN))
    found: dict[str, list[float]] = {"bare": [], "engine": [], "evidence": []}
    for turn in range(arguments.turns):
        folder = Path(tempfile.mkdtemp())
        stage = Stage(
            kind="grpo", model=arguments.model, recipe=recipe, folder=folder / "stage", seed=turn,
            save_every=1_000,
        )  # fmt: skip
        found["bare"] += bare(stage, tasks)
        steps, evidence = engine(stage, tasks)
        found["engine"] += steps
        found["evidence"].append(evidence)
        shutil.rmtree(folder)
    medians = {name: statistics.median(values) for name, values in found.items()}
    ratio = medians["engine"] / medians["bare"]
    share = medians["evidence"] / medians["engine"]
    kind = "GPU, wall" if torch.cuda.is_available() else "CPU"
    print(
        f"{arguments.model}, {arguments.tasks} tasks x {arguments.group}, seconds per step ({kind})"
    )
    for name, values in found.items():
        print(f"  {name:9} median {medians[name]:.3f}  n {len(values)}  "
              f"[{min(values):.3f}, {max(values):.3f}]")  # fmt: skip
    print(f"engine / bare TRL: {ratio:.3f} (limit {LIMIT})")
    print(f"evidence / step:   {share:.4f} (limit {EVIDENCE_LIMIT})")
    if arguments.json:
        arguments.json.write_text(json.dumps({"ratio": ratio, "evidence_share": share, **medians}))
    if ratio > LIMIT or share > EVIDENCE_LIMIT:
        raise SystemExit("a limit was missed")


if __name__ == "__main__":
    main()
