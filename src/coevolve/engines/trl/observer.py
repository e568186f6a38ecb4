"""What is done after every step: name the metrics, write them down, let the watch look."""

import time
from typing import Any

import torch
from transformers import TrainerCallback

from coevolve.engines.base import Observe, Progress, Stage
from coevolve.engines.stage import drawn
from coevolve.engines.trl.folder import StageFolder
from coevolve.engines.trl.recorder import Recorder
from coevolve.engines.watch import Watch

NAMES = {
    **{name: name for name in (
        "loss", "grad_norm", "learning_rate", "reward", "reward_std", "valid", "optimal",
        "unjudged", "entropy", "temperature", "kl", "drift", "drawing_s", "left_out", "threshold",
        "short", "logprob_gap", "logprob_gap_max", "importance_ratio", "rollouts", "live",
    )},
    "frac_reward_zero_std": "dead",
    "completions/mean_length": "length",
    "completions/clipped_ratio": "cut",
    "clip_ratio/region_mean": "clipped",
    "num_tokens": "tokens",
    "mean_token_accuracy": "token_accuracy",
    **{f"drawn/{name}": name for name in ("reward", "dead", "length", "cut")},
}  # fmt: skip
"""TRL's names of metrics and ours. Those of all that was drawn stand for those of what is learned
from, where these differ."""


class Observer(TrainerCallback):  # type: ignore[misc]
    """Sees the stage from inside the trainer. Every process has one; the first one writes."""

    def __init__(
        self, stage: Stage, folder: StageFolder, observe: Observe | None, recorder: Recorder | None
    ) -> None:
        self.stage, self.folder, self.observe, self.recorder = stage, folder, observe, recorder
        self.watch = Watch(stage.limits)
        self.stopped: str | None = None
        self.last: dict[str, float] = {}
        self.earlier_s = 0.0
        lines = folder.lines()
        self.drawn = drawn(stage, lines)
        for line in lines:  # what was seen before the stage was cut off
            self.earlier_s += line["seconds"]
            self.watch.see({name: value for name, value in line.items() if name != "step"})
        self.began = self.step_began = time.perf_counter()
        self.first_step = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.first_step = self.step(state)
        self.began = self.step_began = time.perf_counter()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        metrics = {
            ours: float(logs[theirs])
            for theirs, ours in NAMES.items()
            if isinstance(logs.get(theirs), int | float)
        }
        if "loss" not in metrics:  # the summary at the end of training
            return
        step, now = self.step(state), time.perf_counter()
        metrics["seconds"], self.step_began = now - self.step_began, now
        if torch.cuda.is_available():
            metrics["memory_gib"] = torch.cuda.max_memory_allocated() / 2**30
            torch.cuda.reset_peak_memory_stats()
        self.last = metrics
        self.drawn += drawn(self.stage, [metrics])
        self.stopped = self.watch.see(metrics)
        if state.is_world_process_zero:
            self.folder.add_line({"step": step, **metrics})
            if self.observe:
                self.observe(self.progress(step, now))
        if self.stopped:
            control.should_training_stop = True
            control.should_save = False
        elif self.stage.recipe.is_over(step, metrics.get("tokens", 0), self.drawn):
            control.should_training_stop = control.should_save = True

    def step(self, state: Any) -> int:
        """Steps done; the trainer counts updates, and logs and saves after the last of a step."""
        return int(state.global_step) // self.stage.updates

    def progress(self, step: int, now: float) -> Progress:
        steps = self.stage.recipe.steps
        pace = (now - self.began) / max(1, step - self.first_step)
        return Progress(step, steps, self.last, pace * (steps - step))

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.recorder:
            self.recorder.flush()
        if self.folder.mirror:  # each machine has a part of it
            self.folder.send(state.global_step)
            torch.distributed.barrier()
        if state.is_world_process_zero:
            self.folder.complete(self.step(state), state.global_step, self.watch.calm)
            self.folder.rotate()
