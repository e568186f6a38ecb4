"""Attention in decoding: what tokens may look at, and how one token looks.

transformers takes a mask of four dimensions as it is: that windows slide, and that most kinds of
attention add the mask to their scores, is then for the caller to see to.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from coevolve.core.errors import PolicyError

PLAIN, SHARING = "sdpa", "coevolve_sharing"
FULL, SLIDING = "full_attention", "sliding_attention"


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **others: Any,
) -> tuple[Tensor, None]:
    """What `sdpa` computes, up to rounding.

    transformers copies keys and values once for each query head that shares them, at every token.
    One token's heads that share them are as well several queries of one head: nothing needs to be
    copied.
    """
    rows, heads, length, size = query.shape
    shared = key.shape[1]
    unusual = any(others.get(name) is not None for name in ("position_bias", "cache", "softcap"))
    if length > 1 or heads == shared or unusual:
        found: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, **others
        )
        return found
    together = query.reshape(rows, shared, heads // shared, size)
    seen = scaled_dot_product_attention(
        together, key, value, attn_mask=attention_mask, scale=others.get("scaling")
    )
    return seen.reshape(rows, 1, heads, size), None


AttentionInterface.register(SHARING, attend)
AttentionMaskInterface.register(SHARING, sdpa_mask)


@contextmanager
def sharing(model: Any) -> Iterator[None]:
    """Let a model attend like that, if it attends by `sdpa` as transformers has it."""
    config = model.config.get_text_config()
    if config._attn_implementation != PLAIN or not model._supports_attention_backend:
        yield
        return
    config._attn_implementation = SHARING
    try:
        yield
    finally:
        config._attn_implementation = PLAIN


class Masks:
    """Masks for one model; one that attends to everything by `sdpa` gets them unchanged."""

    def __init__(self, model: Any) -> None:
        config = model.config.get_text_config()
        self.kinds = set(getattr(config, "layer_types", None) or ())
        others = self.kinds - {FULL, SLIDING}
        if others or model._is_stateful:
            raise undrawable(model, f"layers: {', '.join(sorted(others)) or 'recurrent'}")
        self.window: int | None = getattr(config, "sliding_window", None)
        if self.kinds and SLIDING not in self.kinds:
            self.window = None
        boolean = config._attn_implementation in (PLAIN, SHARING)
        self.added: torch.dtype | None = None if boolean else model.dtype
        """Of the numbers that stand for booleans, where these are added to scores."""

    def shaped(self, visible: Tensor, at: Tensor | None) -> Any:
        """The mask for what is visible from place `at`, or from all places if it is None."""
        if not self.window:
            return self.written(visible)
        places = torch.arange(visible.shape[-1], device=visible.device)
        since = (places if at is None else at)[:, None] - self.window
        near = self.written(visible & (places > since))
        if not self.kinds:
            return near
        return {kind: near if kind == SLIDING else self.written(visible) for kind in self.kinds}

    def written(self, visible: Tensor) -> Tensor:
        """Booleans as the model takes them."""
        if self.added is None:
            return visible
        numbers = torch.zeros(visible.shape, dtype=self.added, device=visible.device)
        return numbers.masked_fill_(~visible, torch.finfo(self.added).min)


def undrawable(model: Any, reason: str) -> PolicyError:
    """What to say of a model from which our generator cannot draw."""
    return PolicyError(
        f"cannot draw from models of type '{model.config.model_type}' ({reason}); take a model "
        "that keeps keys and values alone, or serve this one and name http://HOST/v1#MODEL"
    )
