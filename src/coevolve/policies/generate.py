"""Drawing tokens from a causal language model: batched, and seeded row by row.

Each row has its own stream of random numbers, so an answer depends on its seed and prompt and not
on the rows beside it (up to the rounding of batched matrix products). Prompts that occur several
times, as in a GRPO group, are read once; rows that have ended make room. On CUDA one decoding step
is captured as a graph and replayed, because a step of a small model is all launch time.
"""

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from coevolve.policies.attention import Masks, sharing, undrawable
from coevolve.policies.buffers import Memory, State

ROUND = 64
"""Buffers are a multiple of so many tokens long, so that few lengths need a graph of their own."""
STRIDE = 512
"""Room for answers is made for so many tokens first, and doubled when it is full."""
CHECK_EVERY = 8
"""Steps of a graph between looks at which rows have ended: each look waits for the GPU."""
CACHE_SHARE = 0.3
"""Share of the free GPU memory that keys and values may take."""
CPU_BYTES = 4 << 30
"""The same on a CPU: fixed, so that rows are always grouped alike and rounding repeats."""


class Rule(Protocol):
    """What answers must follow; rows are numbered as in the call."""

    def forbid(self, rows: list[int], logits: Tensor) -> None:
        """Set the logits of tokens that may not come next to -inf."""
        ...

    def follow(self, rows: list[int], tokens: list[int]) -> None:
        """Take note of what was drawn."""
        ...


class Answer(NamedTuple):
    """What was drawn for one prompt, with the end token where there was one."""

    tokens: list[int]
    logprobs: list[float]
    entropies: list[float]
    ended: bool

    def within(self, room: int) -> "Answer":
        """As much of it as there is room for, however much its neighbours have."""
        if len(self.tokens) <= room:
            return self
        return Answer(self.tokens[:room], self.logprobs[:room], self.entropies[:room], False)


class Draw(NamedTuple):
    """How tokens are drawn for some rows of a call."""

    max_tokens: int
    temperature: float
    rule: Rule | None
    numbers: list[int]
    """The rows' numbers in the call."""


class Graph(NamedTuple):
    """Buffers for so many rows, and the decoding steps captured on them by how far they look."""

    state: State
    memory: Memory
    captured: dict[int, Any]


class Generator:
    """Draws answers from one model, whose weights may change in place between calls."""

    def __init__(self, model: Any, end_ids: Sequence[int], pad_id: int) -> None:
        self.model = model
        self.device: torch.device = next(model.parameters()).device
        self.end_ids = torch.tensor(sorted(set(end_ids)), device=self.device)
        self.pad_id = pad_id
        self.last_place = (1 << 31) - 1
        """Rows beyond it stay there beside their neighbours, and are cut off by who set it."""
        self.precision: Callable[[], AbstractContextManager[Any]] = nullcontext
        """What forward passes run in."""
        self.masks = Masks(model)
        self.graphs: dict[tuple[int, int, int, float], Graph] = {}
        # GPT-Neo counts its windows from the end of what it is shown, which graphs round up.
        self.capturing = self.device.type == "cuda" and model.config.model_type != "gpt_neo"

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        seeds: Sequence[int],
        max_tokens: int,
        temperature: float,
        rule: Rule | None = None,
    ) -> list[Answer]:
        """One answer per prompt, in order; temperature 0 takes the likeliest token."""
        answers: dict[int, Answer] = {}
        order = sorted(range(len(prompts)), key=lambda row: (len(prompts[row]), prompts[row]))
        was_training = self.model.training
        self.model.eval()
        try:
            with torch.inference_mode(), self.precision(), sharing(self.model):
                while order:
                    rows = order[: self.rows_at_once(len(prompts[order[-1]]) + max_tokens)]
                    order = order[len(rows) :]
                    draw = Draw(max_tokens, temperature, rule, rows)
                    chosen = [tuple(prompts[row]) for row in rows]
                    home = self.run(chosen, [seeds[row] for row in rows], draw)
                    answers.update(zip(rows, self.collect(home, max_tokens), strict=True))
        finally:
            self.model.train(was_training)
        return [answers[row] for row in range(len(prompts))]

    def rows_at_once(self, length: int) -> int:
        """How many rows of so many tokens fit beside everything else."""
        config = self.model.config.get_text_config()
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        row: int = 2 * 4 * config.num_hidden_layers * heads * size * _rounded(length)
        if self.device.type != "cuda":
            return max(1, min(256, CPU_BYTES // row))
        free = torch.cuda.mem_get_info(self.device)[0]
        unused = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return 1 << max(3, min(11, int(CACHE_SHARE * (free + unused) / row).bit_length() - 1))

    def run(self, prompts: list[tuple[int, ...]], seeds: list[int], draw: Draw) -> State:
        """Answer some rows together."""
        places = {prompt: place for place, prompt in enumerate(dict.fromkeys(prompts))}
        source = torch.tensor([places[prompt] for prompt in prompts], device=self.device)
        lengths = torch.tensor([len(prompt) for prompt in prompts], device=self.device)
        width = int(lengths.max())
        memory = Memory(_rounded(width + min(draw.max_tokens, STRIDE)))
        logits = self.read(list(places), width, memory)
        memory.take(source)
        state = State(len(prompts), _rounded(draw.max_tokens), memory.length, self.device)
        state.row.copy_(torch.arange(len(prompts)))
        state.position.copy_(lengths[:, None] - 1)
        shown = torch.arange(width, device=self.device) >= width - lengths[:, None]
        state.mask[..., :width] = shown[:, None, None]
        state.at.fill_(width)
        drawn = [
            np.random.Generator(np.random.Philox(seed)).random(draw.max_tokens, np.float32)
            for seed in seeds
        ]
        state.uniforms[:, : draw.max_tokens] = torch.from_numpy(np.stack(drawn))
        self.choose(state, logits.index_select(0, source), draw)
        return self.finish(state, memory, width, draw)

    def read(self, prompts: list[tuple[int, ...]], width: int, memory: Memory) -> Tensor:
        """Put the prompts into the memory; returns the logits after each."""
        ids = torch.full((len(prompts), width), self.pad_id)
        for place, prompt in enumerate(prompts):
            ids[place, width - len(prompt) :] = torch.tensor(prompt)
        padding = width - torch.tensor([len(prompt) for prompt in prompts])[:, None]
        places = torch.arange(width)
        causal = torch.ones(width, width, dtype=torch.bool).tril()
        # Padding sees itself: a place that may look at nothing would turn into NaN.
        itself = torch.eye(width, dtype=torch.bool)
        visible = ((places >= padding)[:, None, None] & causal) | itself
        try:
            return self.forward(
                input_ids=ids.to(self.device),
                position_ids=(places - padding).clamp(min=0).to(self.device),
                attention_mask=self.masks.shaped(visible.to(self.device), None),
                past_key_values=memory,
            )
        except (AttributeError, IndexError, TypeError, ValueError) as error:  # of the model's code
            raise undrawable(self.model, f"{type(error).__name__}: {error}") from error

    def finish(self, state: State, memory: Memory, width: int, draw: Draw) -> State:
        """Decode until every row has ended or is full; returns all rows in their first order."""
        capturing = self.capturing and draw.rule is None
        home, step = state, 1
        graph: Graph | None = None
        while step < draw.max_tokens:
            alive = (~state.ended).nonzero()[:, 0]
            if not len(alive):
                break
            if memory.length < min(width + step + CHECK_EVERY, width + draw.max_tokens):
                state.send(home)
                memory = memory.grown(2 * memory.length)
                state, graph = state.grown(memory.length), None
            if graph is not None:
                fewer = _graph_rows(len(alive)) < len(state.ended)
            else:
                fewer = capturing or len(alive) <= 0.75 * len(state.ended)
            if fewer:
                state.send(home)
                reach = width + step + CHECK_EVERY
                graph = self.moved(state, memory, alive, draw, reach) if capturing else None
                if graph is not None:
                    state, memory = graph.state, graph.memory
                else:
                    capturing = False
                    state = state.taken(alive)
                    memory.take(alive)
            if graph is not None:
                stretch = min(CHECK_EVERY, draw.max_tokens - step)
                replayed = self.captured(graph, width + step + CHECK_EVERY, draw)
                for _ in range(stretch):
                    replayed.replay()
                step += stretch
            else:
                memory.shown = width + step
                self.decode(state, memory, draw)
                step += 1
        state.send(home)
        return home

    def moved(
        self, state: State, memory: Memory, alive: Tensor, draw: Draw, reach: int
    ) -> Graph | None:
        """The smallest graph that holds the living rows, with them in it.

        None for a model that cannot be captured, which then decodes step by step.
        """
        rows = _graph_rows(len(alive))
        room = state.uniforms.shape[1]
        key = (rows, memory.length, room, draw.temperature)
        if key not in self.graphs:
            blank = State(rows, room, memory.length, self.device)
            graph = Graph(blank, memory.like(rows), {})
            try:
                self.captured(graph, reach, draw)
            except RuntimeError as error:
                warnings.warn(f"decoding without CUDA graphs, slower: {error}", stacklevel=2)
                self.capturing = False
                return None
            self.graphs[key] = graph
        graph = self.graphs[key]
        filled = torch.cat((alive, alive[:1].expand(rows - len(alive))))
        graph.memory.copy_from(memory, filled)
        graph.state.copy_from(state, filled)
        graph.state.ended[len(alive) :] = True
        graph.state.row[len(alive) :] = -1
        return graph

    def captured(self, graph: Graph, reach: int, draw: Draw) -> Any:
        """The step that looks so far into the buffers, recorded when it is first needed."""
        shown = min(_rounded(reach), graph.memory.length)
        if shown not in graph.captured:
            graph.memory.shown = shown
            before = graph.state.grown(graph.memory.length)
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):  # libraries set themselves up in the first calls
                for _ in range(2):
                    graph.state.at.clamp_(max=shown - 1)
                    graph.state.step.zero_()
                    self.decode(graph.state, graph.memory, draw)
            torch.cuda.current_stream().wait_stream(stream)
            recorded = torch.cuda.CUDAGraph()
            with torch.cuda.graph(recorded):
                self.decode(graph.state, graph.memory, draw)
            graph.captured[shown] = recorded
            # What the first calls drew is undone; their keys are hidden, then overwritten.
            everything = torch.arange(len(before.row), device=self.device)
            graph.state.copy_from(before, everything)
        return graph.captured[shown]

    def forward(self, **inputs: Any) -> Tensor:
        """Logits of the last place, in full precision."""
        logits: Tensor = self.model(**inputs, use_cache=True, logits_to_keep=1).logits[:, -1]
        return logits.float()

    def decode(self, state: State, memory: Memory, draw: Draw) -> None:
        """One step: read the tokens that were drawn last, draw the next."""
        state.mask.index_fill_(3, state.at, True)
        memory.at = state.at
        logits = self.forward(
            input_ids=state.token,
            position_ids=state.position,
            attention_mask=self.masks.shaped(state.mask[..., : memory.shown], state.at),
            past_key_values=memory,
        )
        state.at.add_(1)
        self.choose(state, logits, draw)

    def choose(self, state: State, logits: Tensor, draw: Draw) -> None:
        """A token for every row, with its log-probability and the entropy it was drawn at."""
        rule = draw.rule
        rows = [] if rule is None else [draw.numbers[row] for row in state.row.tolist()]
        if rule is not None:
            rule.forbid(rows, logits)
        logprobs = torch.log_softmax(logits / (draw.temperature or 1.0), dim=-1)
        share = logprobs.exp()
        if draw.temperature:
            below = share.cumsum(-1)
            # The last sum may fall short of 1: scale, so that some token always lies above.
            point = state.uniforms.index_select(1, state.step) * below[:, -1:]
            drawn = (below > point).int().argmax(-1, keepdim=True)
        else:
            drawn = logprobs.argmax(-1, keepdim=True)
        drawn = torch.where(state.ended[:, None], self.pad_id, drawn)
        if rule is not None:
            rule.follow(rows, drawn[:, 0].tolist())
        entropy = torch.special.entr(share).sum(-1, keepdim=True)
        state.tokens.index_copy_(1, state.step, drawn)
        state.logprobs.index_copy_(1, state.step, logprobs.gather(1, drawn))
        state.entropies.index_copy_(1, state.step, entropy)
        state.ended.logical_or_(torch.isin(drawn[:, 0], self.end_ids))
        state.token.copy_(drawn)
        state.position.add_(1).clamp_(max=self.last_place)
        state.step.add_(1)

    def collect(self, home: State, max_tokens: int) -> list[Answer]:
        """Rows as lists, cut after their end token."""
        tokens = home.tokens[:, :max_tokens].cpu()
        ends = torch.isin(tokens, self.end_ids.cpu())
        ended = ends.any(1)
        lengths = torch.where(ended, ends.int().argmax(1) + 1, max_tokens).tolist()
        longest = max(lengths)
        columns = [
            [row[:length] for row, length in zip(values.tolist(), lengths, strict=True)]
            for values in (
                tokens[:, :longest],
                home.logprobs[:, :longest].cpu(),
                home.entropies[:, :longest].cpu(),
            )
        ]
        return [Answer(*fields) for fields in zip(*columns, ended.tolist(), strict=True)]


def _graph_rows(alive: int) -> int:
    """Rows of the graph for so many living ones: powers of two, so that there are few graphs."""
    return 1 << max(3, (alive - 1).bit_length())


def _rounded(length: int) -> int:
    return -(-length // ROUND) * ROUND
