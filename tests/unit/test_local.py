"""Drawing from local models: transformers' own tokens, seeded row by row, within a schema."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="local models need the extra `train`")

import torch
from pydantic import BaseModel
from training import lake_tasks

from coevolve.core.errors import PolicyError, UserError
from coevolve.core.rollout import Message, StopReason
from coevolve.core.splits import Split
from coevolve.domains.registry import get_domain
from coevolve.policies import generate
from coevolve.policies.base import Prompt, Sampling
from coevolve.policies.hardware import computing, pick_device
from coevolve.policies.local import LocalPolicy, render
from coevolve.policies.models import anywhere, find, load


@pytest.fixture(scope="module")
def pocket() -> LocalPolicy:
    return LocalPolicy("pocket", "cpu")


@pytest.fixture(scope="module")
def prompts() -> list[Prompt]:
    domain = get_domain("lake")
    return [Prompt(domain.prompt(task, "cells"), task) for task in lake_tasks(12, Split.DEV)]


def test_greedy_answers_are_those_of_transformers(
    pocket: LocalPolicy, prompts: list[Prompt]
) -> None:
    answers = pocket.answer(prompts, Sampling(temperature=0, max_tokens=60))
    tokenizer, model = pocket.loaded.tokenizer, pocket.loaded.model
    for prompt, answer in zip(prompts, answers, strict=True):
        ids = torch.tensor([render(tokenizer, prompt.messages)])
        found = model.generate(ids, do_sample=False, max_new_tokens=60)[0, ids.shape[1] :]
        assert list(answer.tokens or ()) == found.tolist()


def test_log_probabilities_and_entropies_are_the_models(
    pocket: LocalPolicy, prompts: list[Prompt]
) -> None:
    sampling = Sampling(temperature=0.7, max_tokens=60, seed=3)
    prompt, answer = prompts[0], pocket.answer(prompts, sampling)[0]
    ids = render(pocket.loaded.tokenizer, prompt.messages)
    whole = torch.tensor([ids + list(answer.tokens or ())])
    with torch.no_grad():
        logits = pocket.loaded.model(whole).logits[0, len(ids) - 1 : -1] / 0.7
    expected = torch.log_softmax(logits, -1)
    drawn = expected.gather(1, whole[0, len(ids) :, None])[:, 0]
    assert answer.logprobs == pytest.approx(drawn.tolist(), abs=1e-4)
    entropies = torch.special.entr(expected.exp()).sum(-1)
    assert answer.entropies == pytest.approx(entropies.tolist(), abs=1e-4)


def test_answers_do_not_depend_on_the_company(pocket: LocalPolicy, prompts: list[Prompt]) -> None:
    sampling = Sampling(max_tokens=60, seed=5)
    many = [prompt._replace(sample=sample) for prompt in prompts for sample in range(4)]
    together = pocket.answer(many, sampling)
    backwards = pocket.answer(many[::-1], sampling)[::-1]
    alone = [pocket.answer([prompt], sampling)[0] for prompt in many[:6]]
    texts = [answer.text for answer in together]
    assert texts == [answer.text for answer in backwards]
    assert texts[:6] == [answer.text for answer in alone]
    assert len(set(texts)) > len(prompts)
    other = pocket.answer(many, sampling.model_copy(update={"seed": 6}))
    assert texts != [answer.text for answer in other]


def test_draws_follow_the_models_distribution(pocket: LocalPolicy, prompts: list[Prompt]) -> None:
    many = [prompts[1]._replace(sample=sample) for sample in range(400)]
    answers = pocket.answer(many, Sampling(max_tokens=1, temperature=3.0))
    ids = render(pocket.loaded.tokenizer, prompts[1].messages)
    with torch.no_grad():
        shares = torch.softmax(pocket.loaded.model(torch.tensor([ids])).logits[0, -1] / 3.0, -1)
    top = int(shares.argmax())
    found = sum((answer.tokens or ())[0] == top for answer in answers) / 400
    error = (shares[top] * (1 - shares[top]) / 400) ** 0.5
    assert abs(found - shares[top].item()) < 4 * error


def test_buffers_grow_without_changing_the_answer(
    pocket: LocalPolicy, prompts: list[Prompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    sampling = Sampling(max_tokens=200, temperature=2.5, seed=1)
    expected = [answer.tokens for answer in pocket.answer(prompts, sampling)]
    assert max(len(tokens or ()) for tokens in expected) > 80
    monkeypatch.setattr(generate, "STRIDE", 16)
    monkeypatch.setattr(generate, "ROUND", 16)
    assert [answer.tokens for answer in pocket.answer(prompts, sampling)] == expected


def test_an_answer_stops_where_the_context_does(pocket: LocalPolicy, prompts: list[Prompt]) -> None:
    answers = pocket.answer(prompts[:2], Sampling(max_tokens=4096, temperature=5.0))
    context = pocket.loaded.model.config.max_position_embeddings
    for answer in answers:
        assert answer.prompt_tokens + answer.completion_tokens <= context
        assert (answer.stop is StopReason.LENGTH) == (
            answer.tokens is not None and answer.tokens[-1] not in pocket.loaded.end_ids
        )
    long = Prompt((Message(role="user", content="plan " * 600),))
    with pytest.raises(PolicyError, match="600 tokens does not fit into the 512"):
        pocket.answer([long], Sampling(max_tokens=4))


def test_a_dialogue_that_outgrows_the_context_ends(
    pocket: LocalPolicy, prompts: list[Prompt]
) -> None:
    long = Message(role="user", content="plan " * pocket.loaded.context)
    said = Message(role="assistant", content="plan")
    grown = prompts[0]._replace(messages=(*prompts[0].messages, said, long))
    sampling = Sampling(temperature=0, max_tokens=8)
    first, second = pocket.answer([grown, prompts[1]], sampling)
    assert (first.text, first.stop) == ("", StopReason.LENGTH)
    assert second.tokens == pocket.answer([prompts[1]], sampling)[0].tokens
    with pytest.raises(PolicyError, match="does not fit"):
        pocket.answer([prompts[0]._replace(messages=(long,))], sampling)


def test_a_long_dialogue_does_not_cut_off_its_neighbours(
    pocket: LocalPolicy, prompts: list[Prompt]
) -> None:
    long = Prompt((Message(role="user", content="plan " * (pocket.loaded.context - 3)),))
    sampling = Sampling(temperature=0, max_tokens=60)
    alone = pocket.answer(prompts, sampling)
    first, *others = pocket.answer([long, *prompts], sampling)
    assert first.completion_tokens <= 3
    assert [answer.tokens for answer in others] == [answer.tokens for answer in alone]


def test_a_schema_is_followed_by_construction() -> None:
    class City(BaseModel):
        name: str
        old: bool

    try:
        policy = LocalPolicy("smollm2", "cpu")
    except PolicyError as error:
        pytest.skip(str(error))
    pytest.importorskip("xgrammar", reason="schemas need the extra `train`")
    schema = json.dumps(City.model_json_schema())
    questions = [
        Prompt((Message(role="user", content="Tell me about a city."),), None, n) for n in range(4)
    ]
    answers = policy.answer(questions, Sampling(max_tokens=60, temperature=1.0, json_schema=schema))
    whole = [answer.text for answer in answers if answer.stop is StopReason.END]
    assert whole
    for text in whole:
        City.model_validate_json(text)


@pytest.mark.parametrize("name", ["pokket", "./nowhere", "a/b/c"])
def test_unknown_models_are_named(name: str) -> None:
    with pytest.raises(UserError, match="no model"):
        find(name)


def test_a_folder_without_a_model_is_named(tmp_path: Any) -> None:
    with pytest.raises(UserError, match=r"neither config\.json"):
        load(str(tmp_path))


def test_devices_are_checked() -> None:
    with pytest.raises(UserError, match="cannot compute on device 'abacus'"):
        pick_device("abacus")


def test_settings_of_torch_come_back(pocket: LocalPolicy) -> None:
    threads, onednn = torch.get_num_threads(), torch.backends.mkldnn.enabled
    with computing(pocket.loaded.model):
        assert torch.get_num_threads() == 1
    assert (torch.get_num_threads(), torch.backends.mkldnn.enabled) == (threads, onednn)


def test_a_folder_is_named_so_that_it_is_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mine", "pocket"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    assert anywhere("mine") == str(tmp_path.resolve() / "mine")
    for name in ("pocket", "smollm2", "Qwen/Qwen3-4B", "http://host/v1#model"):
        assert anywhere(name) == name
