"""GRPO through TRL: its trainer, with our generator in it and every rollout recorded.

The methods that are overridden are the whole of what this engine changes in TRL: which row is
which, who draws the tokens, what the log-probabilities were when the loss was computed, and how
soon rows are read and padded.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import compress
from pathlib import Path
from pickle import UnpicklingError
from statistics import fmean
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from trl import GRPOTrainer
from trl.trainer import grpo_trainer

from coevolve.core.errors import EngineError, UserError
from coevolve.core.rollout import JUDGE_ERROR, Message, StopReason
from coevolve.core.seeds import derive_all
from coevolve.core.task import Task
from coevolve.engines.base import Stage
from coevolve.engines.stage import drawn
from coevolve.engines.trl.recorder import Attempt, Recorder, Tried
from coevolve.engines.trl.redraw import dead_groups, redraw
from coevolve.engines.trl.revisit import Revisits
from coevolve.engines.trl.rows import Rows
from coevolve.engines.trl.sharding import Copy
from coevolve.engines.trl.turns import Dialogue, last_said, play
from coevolve.engines.trl.vllm import VllmGenerator
from coevolve.evaluation.judge import said
from coevolve.evaluation.shape import Shaped
from coevolve.harness.filters import Columns, Filter, Memory, codes_of, grouped, weights
from coevolve.harness.reward import SHORT, columns_of, names_short, short_after
from coevolve.policies.base import Completion, Prompt
from coevolve.policies.generate import Answer, Generator
from coevolve.policies.hardware import computing
from coevolve.policies.models import Loaded

PROBES = 16
"""Rollouts of the first step on which the distance from the starting policy is measured."""
PROBE_EVERY = 5
"""Steps between such measurements."""


class Sieve:
    """The filters of a stage: rollouts keep their place, and as much of their advantage as they
    weigh.

    What filters remember is read back from the stage's own record, so that a stage that was cut
    off and resumed leaves out the same rollouts.
    """

    def __init__(self, filters: tuple[Filter, ...], lines: Sequence[Mapping[str, Any]]) -> None:
        self.filters = filters
        threshold = float(lines[-1].get("threshold", 0.0)) if lines else 0.0
        self.memory = Memory(step=len(lines), threshold=threshold)

    def keep(self, own: Columns, accelerator: Any) -> tuple[Tensor, dict[str, float]]:
        """What each rollout of this process weighs, and what is told about the whole step."""
        parts = gather_object([own])
        whole = Columns(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        weight, self.memory = weights(self.filters, whole, self.memory)
        first = sum(len(part.reward) for part in parts[: accelerator.process_index])
        mine = weight[first : first + len(own.reward)].astype(np.float32)
        told = {"left_out": float((weight == 0).mean()), "threshold": self.memory.threshold}
        return torch.as_tensor(mine, device=accelerator.device), told


class Trainer(GRPOTrainer):  # type: ignore[misc]
    """TRL's trainer with rollouts that are seeded by name, measured and recorded."""

    def __init__(
        self,
        *args: Any,
        loaded: Loaded,
        tasks: list[Task],
        recorder: Recorder,
        stage: Stage,
        lines: Sequence[Mapping[str, Any]],
        prompts: list[Any],
        order: list[int],
        probes: Path,
        **kwargs: Any,
    ) -> None:
        self.tasks, self.prompts_by_task, self.recorder = tasks, prompts, recorder
        self.probes_file = probes
        self.order = order
        self.done = drawn(stage, lines) // stage.recipe.group
        """How many groups were drawn before this step."""
        self.chosen: list[int] = []
        """The tasks of all groups of the step, by number, where it is ours to choose them."""
        self.groups: list[int] = []
        """The numbers of those that are learned from."""
        self.revisits = Revisits(stage.recipe.revisit)
        if self.revisits.share:
            numbers = {task.id: number for number, task in enumerate(tasks)}
            self.revisits.recall(recorder.folder, len(lines), stage.recipe.tasks, numbers)
        self.seed, self.sieve, self.loaded = stage.seed, Sieve(stage.filters, lines), loaded
        self.short = float(lines[-1].get("short", SHORT)) if lines else SHORT
        self.names_short = names_short(stage.reward)
        self.recipe, self.folder = stage.recipe, stage.folder
        self.rows: list[dict[str, Any]] = []
        self.places: list[int] = []
        """Of the rows, among all that the step draws."""
        self.tried = Tried()
        self.kept: list[int] = []
        """Which of the rollouts that were tried are learned from, row by row."""
        self.dialogues: list[Dialogue] | None = None
        self.entropies: list[list[float]] = []
        self.drawn: tuple[Any, ...] = ()
        self.drawing_s = 0.0
        self.columns: Columns
        self.dead: Tensor
        self.said: dict[int, list[int]]
        self.read: list[int]
        """Tokens that each row was asked with, in all its turns."""
        self.scored: Tensor | None = None
        self.idle: Tensor | None = None
        words = loaded.model.config.get_text_config()
        if stage.recipe.temperature_end and getattr(words, "final_logit_softcapping", None):
            raise UserError("temperature_end: this model caps its logits; set it to 0")
        super().__init__(*args, reward_funcs=[self.reward], **kwargs)
        if self.recipe.redraw and any(
            getattr(self._tokenizer, name, None)
            for name in ("response_template", "response_schema")
        ):
            raise UserError("redraw: this model's tokenizer takes answers apart; set it to 0")
        self.copy = Copy(self.model) if self.is_fsdp_enabled and not self.use_vllm else None
        self.probes: dict[str, Tensor] = {}
        if probes.exists():
            self.probes = read_probes(probes, self.accelerator.device)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        if "ref" in getattr(self.model, "peft_config", ()):
            # Of several adapters transformers reads those in folders of their own, and not ours.
            self.model.load_adapter(resume_from_checkpoint, "default", is_trainable=True)

    @cached_property
    def generator(self) -> Generator | VllmGenerator:
        """Who draws: vLLM, or our own."""
        if self.use_vllm:
            context = self.loaded.context
            return VllmGenerator(self.vllm_generation, self.eos_token_ids, context, self.folder)
        model = self.copy.model if self.copy else self.accelerator.unwrap_model(self.model)
        made = Generator(model, self.eos_token_ids, self._tokenizer.pad_token_id)
        made.precision = lambda: computing(model)
        made.last_place = self.loaded.context - 1
        return made

    @property
    def step(self) -> int:
        """The step that rollouts are drawn for; the trainer counts updates."""
        done: int = self.state.global_step // self.num_iterations
        return done

    @property
    def first(self) -> int:
        """The place in the step of this process's first row."""
        place: int = self.accelerator.process_index * len(self.rows)
        return place

    def prompts(self) -> list[Prompt]:
        """Which task, and which attempt at it, each row is."""
        asked = {
            row["task"]: tuple(Message.trusted(**message) for message in row["prompt"])
            for row in {row["task"]: row for row in self.rows}.values()
        }
        return [
            Prompt(asked[row["task"]], self.tasks[row["task"]], place % self.num_generations)
            for place, row in zip(self.places, self.rows, strict=True)
        ]

    def seeds(self, turn: int, rows: list[int]) -> list[int]:
        """For some of the rows; whatever process a row is on, its seed is the same."""
        ends = ((self.places[row], turn) for row in rows)
        return derive_all(self.seed, "rollout", self.step, ends=ends)

    def draw(self, ids: list[list[int]], seeds: list[int]) -> list[Answer]:
        """Answers of the current weights, cut off where the model's context ends."""
        context, longest = self.loaded.context, max(map(len, ids))
        if longest >= context:
            raise EngineError(self.loaded.too_long("a prompt", longest))
        rooms = [min(self.recipe.max_tokens, context - len(prompt)) for prompt in ids]
        began = time.perf_counter()
        answers = self.generator.generate(ids, seeds, max(rooms), self.temperature)
        self.drawing_s += time.perf_counter() - began
        return [answer.within(room) for answer, room in zip(answers, rooms, strict=True)]

    def play(self, prompts: list[list[dict[str, str]]], _: Any) -> dict[str, Any]:
        """TRL's rollout function, for tasks of several turns of plain text."""
        episodes = [self.recorder.begin(self.tasks[row["task"]]) for row in self.rows]
        self.dialogues = play(self, episodes)
        self.entropies = [dialogue.entropies for dialogue in self.dialogues]
        self.read = [dialogue.read for dialogue in self.dialogues]
        return {
            "prompt_ids": [dialogue.prompt_ids for dialogue in self.dialogues],
            "completion_ids": [dialogue.ids for dialogue in self.dialogues],
            "logprobs": [dialogue.logprobs for dialogue in self.dialogues],
            "env_mask": [dialogue.own for dialogue in self.dialogues],
        }

    def row(self, task: int) -> dict[str, Any]:
        return {"task": task, "prompt": self.prompts_by_task[task]}

    def begin(self, rows: list[dict[str, Any]], places: Iterable[int]) -> None:
        """Take rows to draw, each at its place among all that the step draws."""
        self.rows, self.places = rows, list(places)
        self.dialogues, self.entropies, self.turn = None, [], 0
        self.said = {row: [] for row in range(len(rows))}
        self.read = [0] * len(rows)
        self.drawing_s = 0.0

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        count = len(inputs)
        first = self.accelerator.process_index * count
        places = range(first, first + count)
        if self.revisits.share or self.recipe.redraw:
            tasks = self.order[self.done : self.done + self.recipe.tasks]
            self.chosen, self.groups = self.revisits.swap(tasks), list(range(len(tasks)))
            inputs = [self.row(self.chosen[place // self.num_generations]) for place in places]
        self.tried, self.kept = Tried(), list(range(count))
        self.begin(inputs, places)
        if self.copy:
            self.copy.follow(self.model)
        if isinstance(self.generator, VllmGenerator):
            self.generator.follow()
            self._last_loaded_step = self.state.global_step  # TRL need not do it again
        self.temperature = self.recipe.temperature_at(0)
        self.measure_drift()
        self.temperature = self.recipe.temperature_at(self.step)
        if self.recipe.temperature_end:
            self._metrics["train"]["temperature"].append(self.temperature)
        with padding_at_once():
            batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        # TRL asks whether their spread is near zero, which rounding decides for some group sizes.
        batch["advantages"][self.dead[first : first + count]] = 0.0
        self._metrics["train"]["frac_reward_zero_std"][-1] = self.dead.float().mean().item()
        if self.chosen:
            self.see_groups()
        if self.sieve.filters:
            keep, told = self.sieve.keep(self.columns, self.accelerator)
            batch["advantages"] = batch["advantages"] * keep[self.kept]
            for name, value in told.items():
                self._metrics["train"][name].append(value)
        if not self.probes and "sampling_per_token_logps" in batch:
            names = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")
            self.probes = {name: batch[name][:PROBES] for name in names}
            self.probes["own"] = batch.get("tool_mask", batch["completion_mask"])[:PROBES]
            self.probes["logprobs"] = batch["sampling_per_token_logps"][:PROBES]
            partial = self.probes_file.with_suffix(".partial")
            torch.save(self.probes, partial)
            partial.replace(self.probes_file)
        return batch

    def see_groups(self) -> None:
        """Note what came of all groups of the step, and where the next one begins."""
        differs = dict(
            zip(self.groups, (~self.dead[:: self.num_generations]).tolist(), strict=True)
        )
        live = [differs.get(number, False) for number in range(len(self.chosen))]
        self.revisits.see(self.chosen, live)
        self.done += len(live)
        if self.recipe.redraw:
            metrics = self._metrics["train"]
            metrics["rollouts"].append(len(live) * self.num_generations)
            metrics["live"].append(sum(live) / len(self.groups))
            metrics["drawn/dead"].append(1 - sum(live) / len(live))

    def _generate(self, prompts: list[Any]) -> tuple[Any, ...]:
        if not self.tools:
            # TRL copies every prompt, and a list that occurs several times only once.
            shared: dict[int, Any] = {}
            pairs = zip(prompts, self.rows, strict=True)
            prompts = [shared.setdefault(row["task"], prompt) for prompt, row in pairs]
        self.drawn = super()._generate(prompts)
        if self.tools or self.dialogues is not None:
            # As evaluation does; TRL counts what was read in the first turn.
            self.count_tokens(sum(self.read) - sum(map(len, self.drawn[0])))
        self.judge()
        redraw(self)
        return self.drawn

    def _tokenize_prompts(self, prompts: list[Any]) -> tuple[list[list[int]], Any, Any]:
        distinct = {id(prompt): prompt for prompt in prompts}
        ids, images, fields = super()._tokenize_prompts(list(distinct.values()))
        places = dict(zip(distinct, ids, strict=True))
        return [list(places[id(prompt)]) for prompt in prompts], images, fields

    def count_tokens(self, more: int) -> None:
        """Count what TRL does not, of all processes."""
        everywhere = self.accelerator.gather(torch.tensor([more], device=self.accelerator.device))
        self.state.num_input_tokens_seen += int(everywhere.sum())
        self._metrics["train"]["num_tokens"] = [self.state.num_input_tokens_seen]

    def _generate_single_turn(
        self, prompt_ids: list[list[int]], *_: Any, **__: Any
    ) -> tuple[list[list[int]], list[list[float]]]:
        rows = self.asked(prompt_ids)
        answers = self.draw(prompt_ids, self.seeds(self.turn, rows))
        tokens = [list(answer.tokens) for answer in answers]
        if not self.turn:
            self.entropies = [answer.entropies for answer in answers]
        for row, ids, own in zip(rows, prompt_ids, tokens, strict=True):
            self.said[row] = [*ids, *own]
            self.read[row] += len(ids)
        self.turn += 1
        return tokens, [list(answer.logprobs) for answer in answers]

    def asked(self, prompt_ids: list[list[int]]) -> list[int]:
        """Which rows are asked again after tool calls; they come in order, and begin alike."""
        rows = iter(self.said.items())
        return [next(row for row, said in rows if ids[: len(said)] == said) for ids in prompt_ids]

    def _calculate_rewards(self, *args: Any) -> Tensor:
        rewards: Tensor = super()._calculate_rewards(*args)
        dead = dead_groups(rewards, self.num_generations)
        self.dead = dead.repeat_interleave(self.num_generations)
        return rewards

    def judge(self) -> None:
        """Score the rows that were drawn."""
        groups = [place // self.num_generations for place in self.places]
        self.recorder.score(self.tried, self.attempts(), groups, self.short)
        self.tried.drawing_s += self.drawing_s

    def reward(self, log_metric: Any, **_: Any) -> list[float]:
        """Record all that this process tried; returns what is learned from it."""
        tried, scored = self.tried, self.tried.scored
        self.recorder.record(tried, self.step)
        failed = tried.failed + sum(one.outcome.failure == JUDGE_ERROR for one in scored)
        if self.sieve.filters:
            weighed = self.weighed()
            failed += len(weighed.failures)
            self.columns = columns_of(scored, tried.groups, weighed.values)
        for one in scored:
            log_metric("valid", one.outcome.valid)
            log_metric("optimal", one.outcome.optimal)
        log_metric("unjudged", failed / len(scored))
        log_metric("drawing_s", tried.drawing_s)
        if self.recipe.redraw:
            for one in scored:
                log_metric("drawn/reward", one.shaped)
                log_metric("drawn/length", one.completion_tokens)
                log_metric("drawn/cut", one.stop is StopReason.LENGTH)
        if self.names_short:
            tokens = gather_object([one.completion_tokens for one in scored])
            self.short = short_after(self.short, np.array(tokens))
            self._metrics["train"]["short"].append(self.short)
        return [scored[place].shaped for place in self.kept]

    def weighed(self) -> Shaped:
        """What the functions among filters weigh the rollouts by that this process tried."""
        filters, tried = self.sieve.filters, self.tried
        if not codes_of(filters):
            return Shaped(np.ones(len(tried.scored)))
        pairs = zip(tried.groups, tried.scored, strict=True)
        own = [(group, one.shaped, float(one.outcome.valid)) for group, one in pairs]
        parts = gather_object([own])
        number, earned, valid = np.concatenate(parts).T
        known = grouped(number.astype(np.int64), earned, valid)
        first = sum(map(len, parts[: self.accelerator.process_index]))
        told = {name: column[first : first + len(own)] for name, column in known.items()}
        return self.recorder.weighed(filters, tried.scored, self.short, told)

    def attempts(self) -> list[Attempt]:
        """What was drawn in this step, row by row."""
        _, completion_ids, own, messages, logprobs, *_ = self.drawn
        ends = set(self.eos_token_ids)
        found = []
        for row, prompt in enumerate(self.prompts()):
            tokens, scores = completion_ids[row], logprobs[row] if logprobs else None
            stop = StopReason.END if tokens[-1] in ends else StopReason.LENGTH
            if own:
                tokens = list(compress(tokens, own[row]))
                scores = scores and list(compress(scores, own[row]))
            last = messages[row][-1].get("content") or ""
            completion = Completion(
                text=last if isinstance(last, str) else str(last),
                stop=stop,
                tokens=tuple(tokens),
                logprobs=None if scores is None else tuple(scores),
                entropies=tuple(self.entropies[row]) if self.entropies and not self.tools else None,
                prompt_tokens=self.read[row],
                completion_tokens=len(tokens),
                seconds=self.drawing_s / len(self.rows),
            )
            found.append(self.attempt(row, prompt, completion, messages[row]))
        return found

    def attempt(
        self, row: int, prompt: Prompt, completion: Completion, messages: list[dict[str, Any]]
    ) -> Attempt:
        """One row, as an episode where its task takes several turns."""
        if self.dialogues is not None:
            dialogue = self.dialogues[row]
            completion = completion._replace(text=dialogue.text, stop=dialogue.stop)
            return Attempt(prompt, completion, tuple(dialogue.turns), dialogue.episode)
        if self.environments:
            most = self.max_tool_calling_iterations + 1
            text, stop = last_said(messages, completion.stop, most)
            completion = completion._replace(text=text, stop=stop)
            turns = tuple(
                Message(role=turn["role"], content=str(turn.get("content") or turn))
                for turn in messages
            )
            return Attempt(prompt, completion, turns, self.environments[row]._episode)
        return Attempt(prompt, completion, said(completion))

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        rows = Rows(input_ids, attention_mask, logits_to_keep)
        with self.tempered(model):
            if self._is_vlm or self.aux_loss_enabled or not rows.solid:
                score = super()._get_per_token_logps_and_entropies
                found = score(model, input_ids, attention_mask, logits_to_keep, *args, **kwargs)
            else:
                with self.accelerator.autocast():
                    # Processes that share weights take as many passes as each other.
                    parts = {"parts": 1} if self.is_fsdp_enabled else {"idle": self.idle}
                    found = (*rows.score(model, **parts), None)
        self.scored = found[0].detach()
        return found

    @contextmanager
    def tempered(self, model: Any) -> Iterator[None]:
        """TRL divides logits by the temperature that it began with. Where another one is in force,
        what its head reads is scaled, and with it the logits."""
        ratio = self.recipe.temperature / self.temperature
        if ratio == 1:
            yield
            return

        def scale(_: Any, __: Any, found: Any) -> Any:
            found.last_hidden_state = found.last_hidden_state * ratio
            return found

        plain = self.accelerator.unwrap_model(model)
        plain = plain.get_base_model() if hasattr(plain, "get_base_model") else plain
        hook = plain.base_model.register_forward_hook(scale)
        try:
            yield
        finally:
            hook.remove()

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        if not (self.beta or self._entropy_bonus_enabled):
            # Without a term of their own, rows of dead groups have an advantage and gradient of 0.
            self.idle = inputs["advantages"] == 0
        try:
            loss: Tensor = super()._compute_loss(model, inputs)
        finally:
            self.idle = None
        sampled = inputs.get("sampling_per_token_logps")
        first = self.state.global_step % self.num_iterations == 0  # with the weights that drew
        if first and sampled is not None and self.scored is not None:
            mask = inputs["completion_mask"] * inputs.get("tool_mask", 1)
            ahead = ((self.scored - sampled) * mask).nan_to_num()
            gap, count = ahead.abs(), mask.sum().clamp(min=1)
            ratio = (ahead.exp() * mask).sum() / count
            own = torch.stack([gap.sum() / count, gap.max(), ratio])
            means, most, ratios = self.accelerator.gather(own[None]).T.tolist()
            metrics = self._metrics["train"]
            metrics["importance_ratio"].append(fmean(ratios))
            metrics["logprob_gap"].append(fmean(means))
            metrics["logprob_gap_max"] = [max([*metrics["logprob_gap_max"], *most])]
        return loss

    def measure_drift(self) -> None:
        """Nats per token between the starting policy and this one, on the first rollouts."""
        if not self.probes or self.step % PROBE_EVERY:
            return
        ids = torch.cat((self.probes["prompt_ids"], self.probes["completion_ids"]), 1)
        mask = torch.cat((self.probes["prompt_mask"], self.probes["completion_mask"]), 1)
        length = self.probes["completion_ids"].shape[1]
        with torch.no_grad():
            now, *_ = self._get_per_token_logps_and_entropies(
                self.model, ids, mask, length, batch_size=min(PROBES, len(ids))
            )
        own = self.probes["completion_mask"] * self.probes["own"]
        drift = ((self.probes["logprobs"] - now) * own).sum() / own.sum().clamp(min=1)
        self._metrics["train"]["drift"].append(self.accelerator.reduce(drift, "mean").item())


@contextmanager
def padding_at_once() -> Iterator[None]:
    """TRL pads row by row, in Python: for a thousand rows as long as a pass of a small model."""
    plain = grpo_trainer.pad

    def pad(
        tensors: list[Tensor],
        padding_value: float = 0,
        padding_side: str = "right",
        pad_to_multiple_of: int | None = None,
    ) -> Tensor:
        if pad_to_multiple_of or tensors[0].dim() != 1:
            found: Tensor = plain(tensors, padding_value, padding_side, pad_to_multiple_of)
            return found
        return pad_sequence(tensors, True, padding_value, padding_side)

    grpo_trainer.pad = pad
    try:
        yield
    finally:
        grpo_trainer.pad = plain


def read_probes(file: Path, device: torch.device) -> dict[str, Tensor]:
    """The rollouts of the first step, of a stage that goes on."""
    try:
        found = torch.load(file, map_location="cpu")
    except (RuntimeError, EOFError, UnpicklingError):
        raise EngineError(
            f"{file} is damaged; delete it, and drift is measured from the next step on"
        ) from None
    return {name: value.to(device) for name, value in found.items()}
