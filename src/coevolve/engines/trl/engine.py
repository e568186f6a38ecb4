"""The TRL engine: opens the stage's folder, trains in it, and leaves a policy there."""

import os
import shutil
import time
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import astuple
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from transformers import PrinterCallback

from coevolve.core.errors import EngineError, UserError
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.domains.turns import has_turns
from coevolve.engines.base import Observe, Result, Stage, order, recorded_model
from coevolve.engines.stage import check_stage, domains_of, drawn, numbers, settled
from coevolve.engines.trl import settings
from coevolve.engines.trl.failures import Pass, named_damage, named_failures, pass_of
from coevolve.engines.trl.fit import (
    adapted,
    fit_of,
    foreseen,
    least_of,
    refuse_misfit,
    room_for,
)
from coevolve.engines.trl.folder import StageFolder, rank
from coevolve.engines.trl.observer import Observer
from coevolve.engines.trl.recorder import Recorder
from coevolve.engines.trl.sharding import also_on_cpus
from coevolve.engines.trl.turns import environment, plain_turns, tool_turns
from coevolve.engines.trl.vllm import vllm_for
from coevolve.engines.trl.warm import examples, unmasked
from coevolve.evaluation.wording import messages_of
from coevolve.harness.wording import Wording
from coevolve.policies.hardware import computing, in_bfloat16, pick_device, size_by, size_of
from coevolve.policies.models import (
    Loaded,
    anywhere,
    check_trainable,
    count_weights,
    find,
    load,
    without_bars,
)
from coevolve.store.shards import compact


class Parts(NamedTuple):
    """What a trainer is made of."""

    stage: Stage
    tasks: list[Task]
    domains: dict[str, Domain]
    loaded: Loaded
    folder: StageFolder
    recorder: Recorder
    turns: int
    """Most answers of a rollout, each of up to max_tokens."""
    at_once: Pass


class TrlEngine:
    """Trains transformers models with TRL. A stage that was cut off goes on where it was."""

    def __init__(self, domains: dict[str, Domain] | None = None) -> None:
        self.domains = domains or {}
        """Domains that are not registered, by name."""

    def check(self, model: str, scripts: Collection[str]) -> None:
        """Refuse what is no model with weights."""
        check_trainable(model, scripts)
        find(model)

    def foresee(
        self, stage: Stage, tasks: Sequence[Task], trainings: int = 1, here: bool = True
    ) -> str:
        """What trainings will take of memory and disk, in a line."""
        stage = settled(stage)
        fit = fit_of(stage, tasks, domains_of((task.domain for task in tasks), self.domains))
        return foreseen(fit, stage, room_for(stage, here and not stage.cluster.workers), trainings)

    def train(self, stage: Stage, tasks: Sequence[Task], observe: Observe | None = None) -> Result:
        """Train, or finish what was begun in the stage's folder."""
        if not tasks:
            raise UserError("there are no tasks to train on")
        if stage.cluster.workers:  # they stand in other folders
            stage = stage.model_copy(update={"model": anywhere(stage.model)})
        stage = settled(stage)
        folder = StageFolder(stage.folder)
        folder.make()
        if stage.tracking != "none" and find_spec(stage.tracking) is None:
            raise UserError(f"tracking needs a package: pip install {stage.tracking}")
        if number := pick_device(stage.device).index:
            raise UserError(
                f"device '{stage.device}': a training takes the first GPU that it sees; set "
                f"CUDA_VISIBLE_DEVICES={number} and leave it out"
            )
        with folder.claimed():
            folder.open(stage, tasks)
            alone = "WORLD_SIZE" not in os.environ
            result = folder.result()
            if result is None:
                if not rank() and not stage.cluster.workers:  # workers do so themselves
                    folder.sweep(stage.processes)
                if stage.cluster.workers:
                    from coevolve.engines.trl.span import span

                    result = span(stage, folder, observe)
                elif stage.processes > 1 and alone:
                    from coevolve.engines.trl.launch import launch

                    result = launch(stage, folder, observe)
                else:
                    result = self.run(stage, list(tasks), folder, observe)
            if alone:  # else other processes may still write
                compact(folder.rollouts)
            return result

    def run(
        self, stage: Stage, tasks: list[Task], folder: StageFolder, observe: Observe | None
    ) -> Result:
        """Train in this process."""
        began = time.perf_counter()
        domains = domains_of((task.domain for task in tasks), self.domains)
        check_stage(stage, tasks, domains)
        recorder = Recorder(domains, folder.rollouts, recorded_model(stage), rank(), stage.reward)
        last, main = folder.last(), rank() == 0
        refuse_misfit(least_of(stage), stage, room_for(stage))
        loaded = load_for(stage)
        check_rank(stage, loaded)
        for name in domains:
            loaded.teach(name, loaded.style(name, stage.style))
            loaded.reword(name, stage.wording.get(name, Wording()))
        observer = Observer(stage, folder, observe, recorder)
        turns = plain_turns(domains, tasks) if stage.kind == "grpo" else 1
        at_once = pass_of(stage, loaded, turns)
        parts = Parts(stage, tasks, domains, loaded, folder, recorder, turns, at_once)
        lines = folder.lines()
        tokens = lines[-1].get("tokens", 0) if lines else 0
        if last and stage.recipe.is_over(last[0], tokens, drawn(stage, lines)):
            # It was cut off between the last step and the result.
            if main:
                folder.take_policy(last[1], loaded)
                if stage.kind == "warm":
                    folder.note_skills("after", load(str(folder.policy), stage.device))
            return self.close(parts, observer, began)
        with (
            quiet(),
            also_on_cpus(),
            small_vocabulary(loaded),
            vllm_for(stage, loaded),
            named_failures(stage, folder, loaded, at_once),
            named_damage(folder),
        ):
            if stage.kind == "warm" and main:
                folder.note_skills("before", loaded)
            trainer = self.warm(parts) if stage.kind == "warm" else self.grpo(parts)
            trainer.add_callback(observer)
            trainer.remove_callback(PrinterCallback)
            causal = unmasked(loaded.model) if stage.kind == "warm" else nullcontext()
            with computing(loaded.model, autocast=False), causal:
                trainer.train(resume_from_checkpoint=str(last[1]) if last else None)
            recorder.flush()
            if observer.stopped is None:
                self.save(trainer, parts)
                if main and stage.kind == "warm":
                    folder.note_skills("after", loaded)
        return self.close(parts, observer, began)

    def grpo(self, parts: Parts) -> Any:
        """TRL's trainer for reinforcement learning."""
        from trl import GRPOConfig

        from coevolve.engines.trl.grpo import Trainer

        stage, tasks, domains, loaded, folder, recorder, turns, _ = parts
        shown = order(len(tasks), stage.recipe.steps * stage.recipe.tasks, stage.seed)
        said = messages_of(
            tasks, domains, lambda name: loaded.style(name, stage.style), loaded.wording
        )
        prompts = [[message.model_dump() for message in messages] for messages in said]
        rows: dict[str, list[Any]] = {
            "prompt": [prompts[index] for index in shown],
            "task": list(shown),
        }
        turning = [domain for domain in domains.values() if has_turns(domain)]
        options: dict[str, Any] = {}
        calls = 0
        if turning and turning[0].tools:
            if len(domains) > 1:
                raise UserError("a domain with tools cannot be mixed with others in one stage")
            if stage.recipe.redraw:
                raise UserError(
                    f"redraw = {stage.recipe.redraw}: '{turning[0].name}' works through tools, "
                    "whose rollouts cannot be drawn again; set it to 0"
                )
            calls = tool_turns(turning[0], tasks) - 1
            options["environment_factory"] = environment(turning[0], tasks)
        machine = self.machine(stage, loaded, turns, calls)
        chosen = {setting.name: setting.value for setting in settings.grpo(stage, machine)}
        trainer = Trainer(
            loaded.model,
            args=on_one_gpu(GRPOConfig(output_dir=str(folder.checkpoints), **chosen)),
            train_dataset=dataset(rows),
            processing_class=loaded.tokenizer,
            peft_config=adapters(stage, loaded),
            loaded=loaded,
            tasks=tasks,
            recorder=recorder,
            stage=stage,
            lines=folder.lines(),
            prompts=prompts,
            order=shown,
            probes=folder.probes(recorder.process),
            **options,
        )
        if turning and not turning[0].tools:
            trainer.rollout_func = trainer.play
        return trainer

    def warm(self, parts: Parts) -> Any:
        """TRL's trainer for supervised learning."""
        from trl import SFTConfig, SFTTrainer

        stage, tasks, domains, loaded, folder, _, turns, at_once = parts
        rows = examples(stage, tasks, domains, loaded)
        longest = max(len(row["input_ids"]) for row in rows)
        if longest > loaded.context:
            raise EngineError(loaded.too_long("a demonstration", longest))
        at_once.rows, at_once.tokens = astuple(pass_of(stage, loaded, longest=longest))
        machine = self.machine(stage, loaded, turns)
        chosen = {setting.name: setting.value for setting in settings.warm(stage, machine, longest)}

        class InOrder(SFTTrainer):  # type: ignore[misc]
            """Shows the demonstrations in the engine's order."""

            def _get_train_sampler(self, dataset: Any = None) -> Any:
                return torch.utils.data.SequentialSampler(dataset or self.train_dataset)

        trainer = InOrder(
            loaded.model,
            args=on_one_gpu(SFTConfig(output_dir=str(folder.checkpoints), **chosen)),
            train_dataset=dataset(
                {name: [row[name] for row in rows] for name in ("input_ids", "labels")}
            ),
            processing_class=loaded.tokenizer,
            peft_config=adapters(stage, loaded),
        )
        if lines := folder.lines():  # TRL's own count begins at zero again
            trainer._total_train_tokens = int(lines[-1].get("tokens", 0))
        return trainer

    def machine(
        self, stage: Stage, loaded: Loaded, turns: int = 1, calls: int = 0
    ) -> settings.Machine:
        return settings.Machine(
            pick_device(stage.device).type == "cuda",
            in_bfloat16(loaded.model),
            size_of(loaded.model),
            turns,
            loaded.context,
            calls,
        )

    def settings(self, stage: Stage) -> list[tuple[str, Any, str]]:
        """What is derived from the recipe: name, value and reason."""
        machine = self.machine(stage, load_for(stage))
        found = (
            settings.grpo(stage, machine)
            if stage.kind == "grpo"
            else settings.warm(stage, machine, 0)
        )
        rank = "recipe: lora, or by the model's size: adapters from a billion weights on"
        lora = ("lora", settled(stage).recipe.rank, rank)
        return [lora, *((setting.name, setting.value, setting.reason) for setting in found)]

    def save(self, trainer: Any, parts: Parts) -> None:
        """Keep the trained weights as the stage's policy; all processes bring their part."""
        main, partial = rank() == 0, parts.folder.path / ".trained"
        if main:
            shutil.rmtree(partial, ignore_errors=True)
        trainer.save_model(str(partial))
        if not main:
            return
        parts.folder.take_policy(partial, parts.loaded)
        shutil.rmtree(partial)

    def close(self, parts: Parts, observer: Observer, began: float) -> Result:
        """Write the result; after an early stop the policy is the last good checkpoint."""
        stage, folder, recorder = parts.stage, parts.folder, parts.recorder
        recorder.close()
        main = recorder.process == 0
        lines = folder.lines()
        steps = int(lines[-1]["step"]) if lines else stage.recipe.steps
        policy = str(folder.policy)
        if observer.stopped is not None:
            good = folder.last(good=True)
            steps, policy = (good[0], policy) if good else (0, stage.model)
            if good and main:
                folder.take_policy(good[1], parts.loaded)
        result = Result(
            policy=policy,
            steps=steps,
            stopped=observer.stopped,
            rollouts=drawn(stage, lines),
            tokens=int(lines[-1].get("tokens", 0)) if lines else 0,
            seconds=observer.earlier_s + time.perf_counter() - began,
            metrics=numbers(lines[-1]) if lines else {},
            skills=folder.skills(),
        )
        return folder.finish(result) if main else result


def on_one_gpu(arguments: Any) -> Any:
    """A process computes on one GPU, however many it sees; more of them take more processes."""
    arguments._n_gpu = min(1, arguments.n_gpu)
    return arguments


def dataset(columns: dict[str, list[Any]]) -> Any:
    """Rows for a trainer. Named by hand: hashing the content would cost time and serve nothing."""
    from datasets import Dataset
    from datasets.table import InMemoryTable

    return Dataset(InMemoryTable.from_pydict(columns), fingerprint="stage")


def load_for(stage: Stage) -> Loaded:
    """The model of a stage; in float32, unless adapters alone are trained."""
    cuda = pick_device(stage.device).type == "cuda" and torch.cuda.is_bf16_supported()
    size = size_by(count_weights(stage.model))
    return load(stage.model, stage.device, training=not settings.halves(adapted(stage), size, cuda))


def check_rank(stage: Stage, loaded: Loaded) -> None:
    """An adapter is trained on as it is: refuse a recipe that names another rank."""
    if not hasattr(loaded.model, "peft_config"):
        return
    found = getattr(loaded.model.peft_config["default"], "r", 0)
    if stage.recipe.rank not in (0, found):
        raise UserError(
            f"'{stage.model}' is an adapter of rank {found}, and the recipe says lora = "
            f"{stage.recipe.rank}; to train it on, set lora = {found}, or leave it out"
        )


def adapters(stage: Stage, loaded: Loaded) -> Any:
    """Low-rank adapters, unless the model has some already."""
    if not stage.recipe.rank or hasattr(loaded.model, "peft_config"):
        return None
    from peft import LoraConfig

    rank = stage.recipe.rank
    return LoraConfig(
        r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM"
    )


@contextmanager
def quiet() -> Iterator[None]:
    """Silence what libraries say about choices that this engine has made on purpose."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    from transformers.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with without_bars(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)


@contextmanager
def small_vocabulary(loaded: Loaded) -> Iterator[None]:
    """TRL scores tokens in slices of the vocabulary; a slice wider than it is wasted work."""
    from trl.trainer import utils

    size = utils._CHUNKED_LOGPROB_CHUNK_SIZE
    vocabulary = loaded.model.config.get_text_config().vocab_size
    utils._CHUNKED_LOGPROB_CHUNK_SIZE = min(size, vocabulary)
    try:
        yield
    finally:
        utils._CHUNKED_LOGPROB_CHUNK_SIZE = size
