"""Decoding in models whose query heads share keys and values."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from tiny import tiny_model

from coevolve.policies import attention
from coevolve.policies.generate import Generator


@pytest.fixture
def model():
    return tiny_model()


def test_answers_have_the_models_own_log_probabilities(model, monkeypatch):
    plain = attention.sdpa_attention_forward
    lengths = []
    monkeypatch.setattr(
        attention,
        "sdpa_attention_forward",
        lambda *args, **more: lengths.append(args[1].shape[2]) or plain(*args, **more),
    )
    prompts = [[5, 6, 7], [5, 6, 7], [9, 8, 7, 6, 5, 4]]
    answers = Generator(model, [1], 0).generate(prompts, [1, 2, 3], 12, 1.0)
    assert min(lengths) > 1  # only prompts were read in the ordinary way
    assert model.config._attn_implementation == "sdpa"
    for prompt, answer in zip(prompts, answers, strict=True):
        with torch.no_grad():
            logits = model(torch.tensor([prompt + answer.tokens])).logits[0, len(prompt) - 1 : -1]
        expected = logits.log_softmax(-1).gather(1, torch.tensor(answer.tokens)[:, None])[:, 0]
        assert torch.allclose(torch.tensor(answer.logprobs), expected, atol=1e-5)


def test_other_kinds_of_attention_are_left_alone(model):
    model.set_attn_implementation("eager")
    with attention.sharing(model):
        assert model.config._attn_implementation == "eager"
