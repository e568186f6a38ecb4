"""Filters in training: rollouts that are left out keep their place and lose their advantage.

Invariant: what filters remember is read back from the stage's own record, so that a stage that was
cut off and resumed leaves out the same rollouts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coevolve.harness.filters import Columns, Filter, Memory, kept


class Sieve:
    """The filters of a stage and what they remember."""

    def __init__(self, filters: tuple[Filter, ...], lines: Sequence[Mapping[str, Any]]) -> None:
        self.filters = filters
        threshold = float(lines[-1].get("threshold", 0.0)) if lines else 0.0
        self.memory = Memory(step=len(lines), threshold=threshold)

    def keep(self, own: Columns, accelerator: Any) -> tuple[Tensor, dict[str, float]]:
        """1 or 0 for each rollout of this process, and what is told about the whole step."""
        device = accelerator.device
        columns = [accelerator.gather(torch.as_tensor(part, device=device)) for part in own]
        whole = Columns(*(column.cpu().numpy() for column in columns))
        keep, self.memory = kept(self.filters, whole, self.memory)
        first = accelerator.process_index * len(own.reward)
        mine = keep[first : first + len(own.reward)].astype(np.float32)
        told = {"left_out": float(1 - keep.mean()), "threshold": self.memory.threshold}
        return torch.as_tensor(mine, device=device), told
