"""Weights in pieces: each process holds a part of them, by FSDP2 through accelerate.

Drawing token by token would gather all pieces for each token. So every process keeps a whole copy
to draw with, in the precision of inference and without optimiser state, which takes over what was
learned once per step.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType

from coevolve.policies.hardware import pick_dtype


class Copy:
    """A whole model beside one that will be in pieces."""

    def __init__(self, model: Any) -> None:
        """Made before the model is cut."""
        dtype = pick_dtype(next(model.parameters()).device, training=False)
        # Weights are converted one by one, so that no second model in float32 exists meanwhile.
        # Buffers, such as the frequencies of places, stay as exact as they are.
        made = {
            id(one): torch.nn.Parameter(one.detach().to(dtype, copy=True), requires_grad=False)
            for one in model.parameters()
        }
        self.model = copy.deepcopy(model, made).eval()
        for module in self.model.modules():
            # TRL replaces a model's `forward` by a function that knows the first one alone.
            module.__dict__.pop("forward", None)

    @torch.no_grad()
    def follow(self, model: Any) -> None:
        """Take over what has been learned. All processes do so together: each has pieces that the
        others need. What is not trained is the same from the beginning."""
        own = dict(self.model.named_parameters())
        for name, pieces in model.named_parameters():
            if pieces.requires_grad:
                own[name].copy_(whole(pieces))


def whole(pieces: Any) -> torch.Tensor:
    """A tensor of which every process has a part."""
    full: torch.Tensor = pieces.full_tensor() if hasattr(pieces, "full_tensor") else pieces
    return full


@contextmanager
def also_on_cpus() -> Iterator[None]:
    """accelerate cuts models on GPUs alone; torch does so on CPUs, too."""
    plain = AcceleratorState.__init__

    def begin(self: Any, *args: Any, fsdp_plugin: Any = None, **kwargs: Any) -> None:
        plain(self, *args, fsdp_plugin=fsdp_plugin, **kwargs)
        if self.distributed_type == DistributedType.MULTI_CPU and fsdp_plugin is not None:
            self.distributed_type, self.fsdp_plugin = DistributedType.FSDP, fsdp_plugin
            PartialState._shared_state["distributed_type"] = DistributedType.FSDP

    AcceleratorState.__init__ = begin
    try:
        yield
    finally:
        AcceleratorState.__init__ = plain
