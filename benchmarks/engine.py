"""What the engine costs: GRPO steps of bare TRL and of the engine, same model, tasks and batch.

    python benchmarks/engine.py [--steps 6] [--model pocket] [--lora RANK] [--domain lake]
        [--max-tokens 128] [--knob NAME=VALUE ...] [--json FILE]

Both train in this process, in turns, on one thread where the model is small. Compared is CPU time
per step (GPU: wall time), without the first step of each. Evidence is what writing rollouts adds.
Tokens, of prompts and answers, are told per second of drawing and per second of all else (wall).
"""

import argparse
import json
import shutil
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from coevolve.cli.tasks import parse_changes
from coevolve.core.splits import Split
from coevolve.domains.base import Domain
from coevolve.domains.registry import get_domain
from coevolve.engines.base import Progress, Stage
from coevolve.engines.trl import settings
from coevolve.engines.trl.engine import (
    TrlEngine,
    adapters,
    dataset,
    quiet,
    small_vocabulary,
)
from coevolve.engines.trl.recorder import Recorder
from coevolve.harness.recipe import Recipe
from coevolve.policies.hardware import computing
from coevolve.policies.models import load

LIMIT = 1.05
EVIDENCE_LIMIT = 0.03


def wall() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def now() -> float:
    return wall() if torch.cuda.is_available() else time.process_time()


class Mark(NamedTuple):
    """What has been used up at the end of a step."""

    used_s: float
    """As compared: CPU time, or wall time on a GPU."""
    wall_s: float
    drawing_s: float
    tokens: int


def steps(marks: list[Mark]) -> list[Mark]:
    """What each step used, without the first."""
    return [
        Mark(new.used_s - old.used_s, new.wall_s - old.wall_s, new.drawing_s - old.drawing_s,
             new.tokens - old.tokens)
        for old, new in pairwise(marks)
    ]  # fmt: skip


def pace(steps: list[Mark]) -> dict[str, float]:
    """Tokens per second of drawing, and of everything else."""
    drawing, wall, tokens = (
        sum(getattr(step, name) for step in steps) for name in ("drawing_s", "wall_s", "tokens")
    )
    return {"drawn_per_s": tokens / drawing, "trained_per_s": tokens / (wall - drawing)}


class Clock(TrainerCallback):  # type: ignore[misc]
    """Notes the time after every step."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self.drawing_s = 0.0

    def timed(self, generate: Any) -> Any:
        """The same function, with its seconds counted as drawing."""

        def counted(*args: Any) -> Any:
            began = wall()
            found = generate(*args)
            self.drawing_s += wall() - began
            return found

        return counted

    def on_step_end(self, _args: Any, state: Any, *_: Any, **__: Any) -> None:
        self.marks.append(Mark(now(), wall(), self.drawing_s, int(state.num_input_tokens_seen)))


def bare(stage: Stage, tasks: list[Any], domain: Domain) -> list[Mark]:
    """Steps of TRL alone."""
    loaded = load(stage.model, stage.device, training=True)
    style = loaded.style(domain.name)

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
            train_dataset=dataset({"prompt": prompts, "task": shown}),
            processing_class=loaded.tokenizer,
            peft_config=adapters(stage, loaded),
            callbacks=[clock],
        )
        trainer.remove_callback(PrinterCallback)
        trainer._generate = clock.timed(trainer._generate)
        with computing(loaded.model, autocast=False):
            trainer.train()
    return steps(clock.marks)


def engine(stage: Stage, tasks: list[Any]) -> tuple[list[Mark], float]:
    """Steps of the engine, and the seconds that writing evidence took of each."""
    marks: list[Mark] = []
    spent: list[float] = []
    plain = Recorder.keep

    def timed(*args: Any) -> None:
        began = time.thread_time()
        plain(*args)
        spent.append(time.thread_time() - began)

    def note(step: Progress) -> None:
        drawing = (marks[-1].drawing_s if marks else 0.0) + step.metrics["drawing_s"]
        marks.append(Mark(now(), wall(), drawing, int(step.metrics["tokens"])))

    with patch.object(Recorder, "keep", timed):
        TrlEngine().train(stage, tasks, note)
    return steps(marks), statistics.mean(spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=16)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--model", default="pocket")
    parser.add_argument("--lora", type=int, default=0, help="rank of adapters")
    parser.add_argument("--domain", default="lake")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--knob", nargs="*", default=[], help="NAME=VALUE, of the tasks")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    domain = get_domain(arguments.domain)
    recipe = Recipe(
        steps=arguments.steps,
        tasks=arguments.tasks,
        group=arguments.group,
        max_tokens=arguments.max_tokens,
        lora=arguments.lora,
    )
    count = arguments.steps * arguments.tasks
    knobs = domain.space.parse(parse_changes(arguments.knob))
    tasks = list(domain.generate(knobs, count, 1, Split.TRAIN))
    made: dict[str, list[Mark]] = {"bare": [], "engine": []}
    written: list[float] = []
    for turn in range(arguments.turns):
        folder = Path(tempfile.mkdtemp())
        stage = Stage(
            kind="grpo", model=arguments.model, recipe=recipe, folder=folder / "stage", seed=turn,
            save_every=1_000,
        )  # fmt: skip
        made["bare"] += bare(stage, tasks, domain)
        own, evidence = engine(stage, tasks)
        made["engine"] += own
        written.append(evidence)
        shutil.rmtree(folder)
    found = {name: [step.used_s for step in some] for name, some in made.items()}
    found["evidence"] = written
    medians = {name: statistics.median(values) for name, values in found.items()}
    paces = {name: pace(some) for name, some in made.items()}
    ratio = medians["engine"] / medians["bare"]
    share = medians["evidence"] / medians["engine"]
    kind = "GPU, wall" if torch.cuda.is_available() else "CPU"
    print(
        f"{arguments.model}, {arguments.tasks} tasks x {arguments.group}, seconds per step ({kind})"
    )
    for name, values in found.items():
        print(f"  {name:9} median {medians[name]:.3f}  n {len(values)}  "
              f"[{min(values):.3f}, {max(values):.3f}]")  # fmt: skip
    for name, rates in paces.items():
        print(f"  {name:9} {rates['drawn_per_s']:,.0f} tokens/s drawing, "
              f"{rates['trained_per_s']:,.0f} tokens/s training")  # fmt: skip
    print(f"engine / bare TRL: {ratio:.3f} (limit {LIMIT})")
    print(f"evidence / step:   {share:.4f} (limit {EVIDENCE_LIMIT})")
    if arguments.json:
        report = {"ratio": ratio, "evidence_share": share, **medians, "tokens": paces}
        arguments.json.write_text(json.dumps(report))
    if ratio > LIMIT or share > EVIDENCE_LIMIT:
        raise SystemExit("a limit was missed")


if __name__ == "__main__":
    main()
