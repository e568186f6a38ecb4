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
from coevolve.policies.buffers import Memory, Space, State, apart

ROUND = 64
"""Buffers are a multiple of so many tokens long, so that few lengths need a graph of their own."""
STRIDE = 512
"""Room for answers is made for so many tokens first, and for twice as many when it is full."""
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


class Place(NamedTuple):
    """Where decoding is."""

    state: State
    memory: Memory
    filled: int
    """Tokens in the memory: prompts, and what was drawn but for the last token."""
    rows: Tensor
    """Of the memory, for the rows of the state."""


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
        self.space = Space()
        """Where graphs find their buffers."""
        self.graphs: dict[tuple[int, ...], Callable[[], Any]] = {}
        """Captured steps by the shapes of their buffers and how far they look."""
        self.scratch: Any = None
        """Memory for what is computed within a step: as no two run at a time, all share it."""
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
        row: int = 2 * 4 * config.num_hidden_layers * heads * size * rounded(length)
        if self.device.type != "cuda":
            return max(1, min(256, CPU_BYTES // row))
        free = torch.cuda.mem_get_info(self.device)[0]
        unused = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        free += self.space.held
        return 1 << max(3, min(11, int(CACHE_SHARE * (free + unused) / row).bit_length() - 1))

    def run(self, prompts: list[tuple[int, ...]], seeds: list[int], draw: Draw) -> State:
        """Answer some rows together."""
        places = {prompt: place for place, prompt in enumerate(dict.fromkeys(prompts))}
        source = torch.tensor([places[prompt] for prompt in prompts], device=self.device)
        lengths = torch.tensor([len(prompt) for prompt in prompts], device=self.device)
        width = int(lengths.max())
        memory = Memory(width)
        logits = self.read(list(places), width, memory)
        state = State(len(prompts), rounded(draw.max_tokens), width, self.device)
        state.row.copy_(torch.arange(len(prompts)))
        state.position.copy_(lengths[:, None] - 1)
        shown = torch.arange(width, device=self.device) >= width - lengths[:, None]
        state.mask.copy_(shown[:, None, None])
        state.at.fill_(width)
        state.heat.fill_(draw.temperature or 1.0)
        drawn = [
            np.random.Generator(np.random.Philox(seed)).random(draw.max_tokens, np.float32)
            for seed in seeds
        ]
        state.uniforms[:, : draw.max_tokens] = torch.from_numpy(np.stack(drawn))
        self.choose(state, logits.index_select(0, source), draw)
        return self.finish(Place(state, memory, width, source), draw)

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

    def finish(self, place: Place, draw: Draw) -> State:
        """Decode until every row has ended or is full; returns all rows in their first order."""
        home, width, step = place.state, place.filled, 1
        while step < draw.max_tokens:
            alive = (~place.state.ended).nonzero()[:, 0]
            if not len(alive):
                break
            capturing = self.capturing and draw.rule is None
            full = place.memory.length < width + min(step + CHECK_EVERY, draw.max_tokens)
            if capturing:
                fewer = graph_rows(len(alive)) < len(place.state.ended)
            else:
                fewer = len(alive) <= 0.75 * len(place.state.ended)
            if full or fewer:
                place.state.send(home)
                room = min(draw.max_tokens, max(STRIDE, 2 * step))
                length = rounded(width + room) if full else place.memory.length
                place = self.moved(place, alive, length, capturing)
            replayed = self.captured(place, draw) if capturing else None
            if replayed is None:
                place.memory.shown = width + step
                self.decode(place.state, place.memory, draw)
                stretch = 1
            else:
                stretch = min(CHECK_EVERY, draw.max_tokens - step)
                for _ in range(stretch):
                    replayed()
            step += stretch
            place = place._replace(filled=width + step - 1)
        place.state.send(home)
        return home

    def moved(self, place: Place, alive: Tensor, length: int, capturing: bool) -> Place:
        """The living rows alone, in buffers so long; filled up to as many rows as a graph has."""
        count = len(alive)
        rows = graph_rows(count) if capturing else count
        chosen, before = torch.cat((alive, alive[:1].expand(rows - count))), self.space.renewed
        lay = self.space.lay if capturing else apart
        state = place.state.moved(chosen, length, lay)
        memory = place.memory.moved(place.rows.index_select(0, chosen), place.filled, length, lay)
        if self.space.renewed > before:
            self.graphs.clear()
            self.scratch = None
        state.ended[count:] = True
        state.row[count:] = -1
        return Place(state, memory, place.filled, torch.arange(rows, device=self.device))

    def captured(self, place: Place, draw: Draw) -> Callable[[], Any] | None:
        """The step on these buffers, recorded when it is first needed; it looks as far as the next
        few steps go.

        None for a model that cannot be captured, which then decodes step by step.
        """
        state, memory = place.state, place.memory
        shown = min(rounded(place.filled + CHECK_EVERY), memory.length)
        rows, room = state.uniforms.shape
        key = (rows, room, memory.length, shown, bool(draw.temperature))
        if key not in self.graphs:
            memory.shown = shown
            everything = torch.arange(rows, device=self.device)
            before = state.moved(everything, memory.length, apart)
            try:
                self.graphs[key] = self.record(state, memory, draw)
            except RuntimeError as error:
                warnings.warn(f"decoding without CUDA graphs, slower: {error}", stacklevel=2)
                self.capturing = False
            # What was drawn meanwhile is undone; its keys are hidden, then overwritten.
            before.moved(everything, memory.length, self.space.lay)
        return self.graphs.get(key)

    def record(self, state: State, memory: Memory, draw: Draw) -> Callable[[], Any]:
        """A step on these buffers as a CUDA graph."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # libraries set themselves up in the first calls
            for _ in range(2):
                state.at.clamp_(max=memory.shown - 1)
                state.step.zero_()
                self.decode(state, memory, draw)
        torch.cuda.current_stream().wait_stream(stream)
        self.scratch = self.scratch or torch.cuda.graph_pool_handle()
        recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recorded, pool=self.scratch):
            self.decode(state, memory, draw)
        return recorded.replay

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
        logprobs = torch.log_softmax(logits / state.heat, dim=-1)
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


def graph_rows(alive: int) -> int:
    """Rows of the graph for so many living ones: powers of two, so that there are few graphs."""
    return 1 << max(3, (alive - 1).bit_length())


def rounded(length: int) -> int:
    """How long a buffer is for so many tokens: there are few lengths, none of them much longer than
    what is needed."""
    part = max(ROUND, 1 << (length - 1).bit_length() >> 3)
    return -(-length // part) * part
