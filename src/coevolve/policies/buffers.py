"""The buffers of decoding: what has been read (keys and values) and what has been drawn.

They are changed in place and keep their shape, so that a step on them can be captured once as a
CUDA graph and replayed. Whoever needs them in another shape lays them anew: apart, or in a `Space`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Lay = Callable[[str, Tensor, Sequence[int]], Tensor]
"""Gives the buffer of a name a shape; the values are at its beginning, and zeros behind them."""


def apart(_: str, values: Tensor, shape: Sequence[int]) -> Tensor:
    """A buffer of its own."""
    if values.shape == torch.Size(shape):
        return values
    return begun(values.new_zeros(tuple(shape)), values)


def begun(buffer: Tensor, values: Tensor) -> Tensor:
    """A buffer with values at the beginning of each dimension."""
    buffer[tuple(slice(size) for size in values.shape)] = values
    return buffer


class Space:
    """Where buffers of one name lie at one place, whatever their shape, one after the other.

    Those of a shape are always at the same address, so that a graph finds them there, and all
    graphs together take no more than the largest.
    """

    def __init__(self) -> None:
        self.places: dict[str, Tensor] = {}
        self.renewed = 0
        """How often a place became too small: what was captured before is void."""

    @property
    def held(self) -> int:
        """Bytes."""
        return sum(place.nbytes for place in self.places.values())

    def lay(self, name: str, values: Tensor, shape: Sequence[int]) -> Tensor:
        """The values must not lie here themselves."""
        size = torch.Size(shape).numel()
        place = self.places.get(name)
        if place is None or len(place) < size or place.dtype != values.dtype:
            del place
            self.places.pop(name, None)
            self.places[name] = values.new_empty(size)
            self.renewed += 1
        buffer = self.places[name][:size].view(tuple(shape))
        return begun(buffer if values.shape == buffer.shape else buffer.zero_(), values)


class Memory:
    """Keys and values of all layers; a transformers cache by its methods."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.at: Tensor | None = None
        """Where the next token's key goes; None while prompts are read."""
        self.shown = length
        """How much of the buffers a step looks at; a graph looks at all, behind the mask."""
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def update(self, key: Tensor, value: Tensor, layer: int, *_: Any, **__: Any) -> Any:
        """Called by every attention layer: store what is new, return what it may look at."""
        if self.at is None:
            self.keys.append(key)
            self.values.append(value)
            return key, value
        keys, values = self.keys[layer], self.values[layer]
        keys.index_copy_(2, self.at, key)
        values.index_copy_(2, self.at, value)
        return keys[:, :, : self.shown], values[:, :, : self.shown]

    def get_seq_length(self, *_: Any) -> int:
        """Part of the cache protocol; positions and masks are always given explicitly."""
        return 0

    def moved(self, rows: Tensor, filled: int, length: int, lay: Lay) -> "Memory":
        """Some of the rows, of which so much is filled, in buffers so long. They are given up here
        layer by layer, so that there is hardly ever more than one copy."""
        other = Memory(length)
        for kind in ("keys", "values"):
            ours, theirs = getattr(self, kind), getattr(other, kind)
            while ours:
                kept = ours.pop(0)[:, :, :filled].index_select(0, rows)
                shape = (*kept.shape[:2], length, kept.shape[3])
                theirs.append(lay(f"{kind} {len(theirs)}", kept, shape))
        return other


class State:
    """Everything that one step reads and writes beside the memory."""

    BY_ROW = (
        "row", "token", "position", "mask", "ended", "uniforms", "tokens", "logprobs", "entropies",
    )  # fmt: skip
    FOR_ALL = ("step", "at", "heat")

    def __init__(self, rows: int, room: int, length: int, device: torch.device) -> None:
        def zeros(*shape: int, dtype: torch.dtype = torch.long) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        self.row = zeros(rows)
        """Which row of the call this is; -1 fills a graph up."""
        self.token = zeros(rows, 1)
        """Drawn last, not yet read."""
        self.position = zeros(rows, 1)
        self.mask = zeros(rows, 1, 1, length, dtype=torch.bool)
        """What attention may look at."""
        self.ended = zeros(rows, dtype=torch.bool)
        self.uniforms = zeros(rows, room, dtype=torch.float32)
        """Random numbers, one for each token to come."""
        self.tokens = zeros(rows, room)
        self.logprobs = zeros(rows, room, dtype=torch.float32)
        self.entropies = zeros(rows, room, dtype=torch.float32)
        self.step = zeros(1)
        """Tokens drawn so far."""
        self.at = zeros(1)
        """Where in the memory the last drawn token goes."""
        self.heat = zeros(1, dtype=torch.float32)
        """What logits are divided by."""

    def moved(self, rows: Tensor, length: int, lay: Lay) -> "State":
        """Some of the rows, beside a memory so long."""
        other = object.__new__(State)
        for name in self.BY_ROW:
            kept = getattr(self, name).index_select(0, rows)
            shape = (*kept.shape[:-1], length) if name == "mask" else kept.shape
            setattr(other, name, lay(name, kept, shape))
        for name in self.FOR_ALL:
            kept = getattr(self, name).clone()
            setattr(other, name, lay(name, kept, kept.shape))
        return other

    def send(self, home: "State") -> None:
        """Write what was drawn back to where the rows came from."""
        if self is home:
            return
        real = (self.row >= 0).nonzero()[:, 0]
        target = self.row.index_select(0, real)
        for name in ("tokens", "logprobs", "entropies", "ended"):
            values = getattr(self, name).index_select(0, real)
            getattr(home, name).index_copy_(0, target, values)
