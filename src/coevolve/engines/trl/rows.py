"""Log-probabilities of answers without the padding that TRL gives them.

TRL pads prompts on the left and answers on the right to the longest of each, and computes with all
of it. Here rows of like length go together, every row begins at its first token, and attention is
plain causal attention: no token can see padding behind it, none is left with nothing to see (which
some GPU kernels turn into NaN), and no mask slows it down. Only rounding differs.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

PARTS = 8
"""Into how many parts a pass is cut, by length."""
LEAST = 32768
"""Tokens below which a part leaves a GPU idle."""
IGNORED = -100


class Rows:
    """Prompts and answers as TRL lays them out."""

    def __init__(self, ids: Tensor, mask: Tensor, keep: int) -> None:
        self.ids, self.keep = ids, keep
        self.lengths = mask.sum(1)
        self.first = mask.int().argmax(1)
        self.prompts = ids.shape[1] - keep - self.first
        places = torch.arange(ids.shape[1], device=ids.device)
        inside = (places >= self.first[:, None]) & (places < (self.first + self.lengths)[:, None])
        self.solid = bool((inside == mask.bool()).all()) and bool((self.lengths > 0).all())
        """Whether every row is one stretch; truncated answers may be masked out by TRL."""

    def score(
        self, model: Any, idle: Tensor | None = None, parts: int = PARTS
    ) -> tuple[Tensor, Tensor]:
        """Log-probability and entropy at each token of the answers, zero behind them.

        `idle` rows are known to have no gradient, so none is prepared for them.
        """
        order = self.lengths.argsort(stable=True)
        resting = torch.zeros_like(order, dtype=torch.bool) if idle is None else idle[order]
        if resting.all():  # a loss without any gradient could not be differentiated
            resting = torch.zeros_like(resting)
        order = torch.cat((order[~resting], order[resting]))
        live, size = int((~resting).sum()), max(1, -(-len(order) // parts))
        if self.ids.is_cuda:
            size = max(size, LEAST // int(self.lengths.max()))
        found = []
        for first, last in ((0, live), (live, len(order))):
            with torch.set_grad_enabled(torch.is_grad_enabled() and first == 0):
                for at in range(first, last, size):
                    found.append(self.part(model, order[at : min(at + size, last)]))
        back = order.argsort()
        return (
            torch.cat([logps for logps, _ in found])[back],
            torch.cat([entropies for _, entropies in found])[back],
        )

    def part(self, model: Any, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The same for some rows."""
        lengths, prompts = self.lengths[rows], self.prompts[rows]
        width = int(lengths.max())
        places = torch.arange(width, device=self.ids.device)[None]
        source = (self.first[rows][:, None] + places).clamp(max=self.ids.shape[1] - 1)
        ids = self.ids[rows].gather(1, source)
        inside = places < lengths[:, None]
        labels = ids.masked_fill(~inside | (places < prompts[:, None]), IGNORED)
        output = model(input_ids=ids, labels=labels, fused_lm_head=True)
        # Place j of the output is about token j + 1 of the row.
        most = int((lengths - prompts).max())
        answer = torch.arange(most, device=ids.device)[None]
        at = (prompts[:, None] - 1 + answer).clamp(max=width - 2)
        own = answer < (lengths - prompts)[:, None]
        room = (0, self.keep - most)
        logps = pad(output.log_probs.gather(1, at) * own, room)
        if output.entropy is None:  # of the model that a KL term refers to, nobody asks for it
            return logps, torch.zeros_like(logps)
        return logps, pad(output.entropy.gather(1, at) * own, room)
