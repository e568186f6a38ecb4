"""Attention of one token in models whose query heads share keys and values.

transformers copies keys and values once for each query head that shares them, at every token. One
token's heads that share them are as well several queries of one head: nothing needs to be copied.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

PLAIN, SHARING = "sdpa", "coevolve_sharing"


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **others: Any,
) -> tuple[Tensor, None]:
    """What `sdpa` computes, up to rounding."""
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
