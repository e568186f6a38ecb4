"""A tiny language model with random weights, whose query heads share keys and values."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def tiny_model() -> LlamaForCausalLM:
    """Two layers, with two heads of eight numbers for keys and values; 40 tokens."""
    torch.manual_seed(3)
    sizes = {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 8}
    config = LlamaConfig(vocab_size=40, initializer_range=0.4, **sizes, **heads)
    return LlamaForCausalLM(config).eval()
