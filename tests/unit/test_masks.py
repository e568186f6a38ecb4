"""Drawn log-probabilities are the model's own, whatever its layers may look at."""

from typing import Any

import pytest

pytest.importorskip("transformers", reason="local models need the extra `train`")

import torch
import transformers

from coevolve.policies.generate import Generator

SMALL: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.4,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 1,
}
WINDOW = {"sliding_window": 8}
BOTH = {"layer_types": ["sliding_attention", "full_attention"]}
EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}
OLD = {"vocab_size": 50, "hidden_size": 32, "num_layers": 2, "num_heads": 4}


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("Llama", {}),
        ("Qwen3", {"head_dim": 8}),
        ("Qwen2", {**WINDOW, "use_sliding_window": True, "max_window_layers": 1}),
        ("Mistral", WINDOW),
        ("Phi3", WINDOW),
        ("Gemma2", {**WINDOW, **BOTH, "head_dim": 8}),
        ("Gemma3", {**WINDOW, **BOTH, "head_dim": 8}),
        ("GptOss", {**WINDOW, **BOTH, **EXPERTS, "head_dim": 8}),
        ("GPTNeo", {"attention_types": [[["global", "local"], 1]], "window_size": 8}),
        ("Falcon", {}),
    ],
)
def test_answers_have_the_models_own_log_probabilities(name: str, changes: dict[str, Any]) -> None:
    torch.manual_seed(0)
    config = getattr(transformers, "Gemma3TextConfig" if name == "Gemma3" else f"{name}Config")
    sizes = {**OLD, "initializer_range": 0.4} if name == "GPTNeo" else SMALL
    model = getattr(transformers, f"{name}ForCausalLM")(config(**{**sizes, **changes})).eval()
    prompts = [list(range(3, 43)), list(range(3, 23))]
    answers = Generator(model, [1], 0).generate(prompts, [1, 2], 10, 1.0)
    for prompt, answer in zip(prompts, answers, strict=True):
        with torch.no_grad():
            logits = model(torch.tensor([prompt + answer.tokens])).logits[0, len(prompt) - 1 : -1]
        expected = logits.log_softmax(-1).gather(1, torch.tensor(answer.tokens)[:, None])[:, 0]
        assert answer.logprobs == pytest.approx(expected.tolist(), abs=1e-4)
