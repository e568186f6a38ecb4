"""The buffers of decoding: what has been read (keys and values) and what has been drawn.

They are changed in place and keep their shape, so that a step on them can be captured once as a
CUDA graph and replayed.
"""

from typing import Any

import torch
from torch import Tensor


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
            for buffers, new in ((self.keys, key), (self.values, value)):
                buffer = new.new_zeros((*new.shape[:2], self.length, new.shape[3]))
                buffer[:, :, : new.shape[2]] = new
                buffers.append(buffer)
            return key, value
        keys, values = self.keys[layer], self.values[layer]
        keys.index_copy_(2, self.at, key)
        values.index_copy_(2, self.at, value)
        return keys[:, :, : self.shown], values[:, :, : self.shown]

    def get_seq_length(self, *_: Any) -> int:
        """Part of the cache protocol; positions and masks are always given explicitly."""
        return 0

    def take(self, rows: Tensor) -> None:
        """Keep, repeat or reorder rows."""
        self.keys = [buffer.index_select(0, rows) for buffer in self.keys]
        self.values = [buffer.index_select(0, rows) for buffer in self.values]

    def grown(self, length: int) -> "Memory":
        """The same in longer buffers."""
        other = Memory(length)
        room = (0, 0, 0, length - self.length)
        other.keys = [torch.nn.functional.pad(buffer, room) for buffer in self.keys]
        other.values = [torch.nn.functional.pad(buffer, room) for buffer in self.values]
        return other

    def like(self, rows: int) -> "Memory":
        """Empty buffers of the same shape but for the number of rows."""
        other = Memory(self.length)
        other.keys = [buffer.new_zeros((rows, *buffer.shape[1:])) for buffer in self.keys]
        other.values = [buffer.new_zeros((rows, *buffer.shape[1:])) for buffer in self.values]
        return other

    def copy_from(self, other: "Memory", rows: Tensor) -> None:
        """Overwrite in place."""
        theirs = other.keys + other.values
        for buffer, source in zip(self.keys + self.values, theirs, strict=True):
            torch.index_select(source, 0, rows, out=buffer)


class State:
    """Everything that one step reads and writes beside the memory."""

    BY_ROW = (
        "row", "token", "position", "mask", "ended", "uniforms", "tokens", "logprobs", "entropies",
    )  # fmt: skip

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

    def taken(self, rows: Tensor) -> "State":
        """Some of the rows, apart from these."""
        other = object.__new__(State)
        for name in self.BY_ROW:
            setattr(other, name, getattr(self, name).index_select(0, rows))
        other.step, other.at = self.step, self.at
        return other

    def grown(self, length: int) -> "State":
        """The same beside a longer memory."""
        other = self.taken(torch.arange(len(self.row), device=self.row.device))
        other.mask = torch.nn.functional.pad(self.mask, (0, length - self.mask.shape[-1]))
        other.step, other.at = self.step.clone(), self.at.clone()
        return other

    def copy_from(self, other: "State", rows: Tensor) -> None:
        """Overwrite in place with some of another's rows."""
        for name in self.BY_ROW:
            torch.index_select(getattr(other, name), 0, rows, out=getattr(self, name))
        self.step.copy_(other.step)
        self.at.copy_(other.at)

    def send(self, home: "State") -> None:
        """Write what was drawn back to where the rows came from."""
        if self is home:
            return
        real = (self.row >= 0).nonzero()[:, 0]
        target = self.row.index_select(0, real)
        for name in ("tokens", "logprobs", "entropies", "ended"):
            values = getattr(self, name).index_select(0, real)
            getattr(home, name).index_copy_(0, target, values)
