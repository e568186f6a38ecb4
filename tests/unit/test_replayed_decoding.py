"""Decoding steps that are recorded once and replayed: CUDA graphs, and what stands in for them
here. A step that is replayed knows only the addresses that it was recorded with."""

import copy
import itertools

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from tiny import tiny_model

from coevolve.policies.buffers import Space
from coevolve.policies.generate import Generator, rounded

END, PAD = 1, 0


@pytest.fixture
def model():
    return tiny_model()


class Replaying(Generator):
    """Records steps as a graph does: with the very buffers that there are at the time."""

    def __init__(self, model) -> None:
        super().__init__(model, [END], PAD)
        self.capturing = True
        self.recorded = []

    def record(self, state, memory, draw):
        state.step.zero_()
        self.decode(state, memory, draw)  # as a graph's first calls: what they draw is undone
        self.recorded.append((*state.uniforms.shape, memory.length, memory.shown))
        same, known = copy.copy(state), copy.copy(memory)
        known.keys, known.values = list(memory.keys), list(memory.values)
        return lambda: self.decode(same, known, draw)


def prompts(count, length):
    return [
        [2 + (7 * row + place) % 38 for place in range(length + row % 3)] for row in range(count)
    ]


def alike(ours, plain):
    assert [one.tokens for one in ours] == [one.tokens for one in plain]
    assert [one.ended for one in ours] == [one.ended for one in plain]
    drawn = [list(itertools.chain(*(one.logprobs for one in every))) for every in (ours, plain)]
    assert torch.allclose(*map(torch.tensor, drawn), atol=1e-5)


def test_answers_are_those_of_plain_decoding_whatever_came_before(model):
    replaying, plain = Replaying(model), Generator(model, [END], PAD)
    calls = [(40, 5, 30), (9, 90, 60), (40, 5, 30), (70, 12, 20), (3, 5, 150), (40, 40, 30)]
    for count, length, most in calls:
        for temperature in (1.0, 0.0):
            asked = prompts(count, length)
            seeds = list(range(count))
            alike(
                replaying.generate(asked, seeds, most, temperature),
                plain.generate(asked, seeds, most, temperature),
            )


def test_answers_go_on_in_longer_buffers(model, monkeypatch):
    monkeypatch.setattr("coevolve.policies.generate.STRIDE", 16)
    replaying, plain = Replaying(model), Generator(model, [], PAD)
    replaying.end_ids = plain.end_ids
    asked = prompts(5, 60)
    alike(replaying.generate(asked, range(5), 200, 1.0), plain.generate(asked, range(5), 200, 1.0))
    assert len({length for _, _, length, _ in replaying.recorded}) > 2


def test_temperatures_share_what_is_recorded(model):
    replaying = Replaying(model)
    for temperature in (1.0, 0.9, 0.7):
        replaying.generate(prompts(8, 6), range(8), 20, temperature)
    assert len(replaying.recorded) == len(set(replaying.recorded)) > 0


def test_all_shapes_together_take_what_the_largest_does(model):
    replaying = Replaying(model)
    replaying.generate(prompts(64, 120), range(64), 40, 1.0)
    held = replaying.space.held
    for count, length in ((64, 6), (8, 120), (20, 60)):
        replaying.generate(prompts(count, length), range(count), 40, 1.0)
    assert replaying.space.held == held
    keys_and_values = 2 * 2 * 64 * 2 * 8 * rounded(122 + 40) * 4
    assert keys_and_values <= held < 1.2 * keys_and_values


def test_what_was_recorded_on_a_place_that_became_too_small_is_dropped(model):
    replaying = Replaying(model)
    replaying.generate(prompts(8, 6), range(8), 20, 1.0)
    small = len(replaying.graphs)
    replaying.generate(prompts(64, 6), range(64), 20, 1.0)
    assert small > 0
    assert all(key[0] <= 64 for key in replaying.graphs)
    assert any(key[0] == 64 for key in replaying.graphs)
    assert len(replaying.recorded) > len(replaying.graphs)


def test_a_model_that_cannot_be_recorded_is_decoded_step_by_step(model, monkeypatch):
    replaying, plain = Replaying(model), Generator(model, [END], PAD)

    def refuse(state, memory, draw):
        state.step.zero_()
        replaying.decode(state, memory, draw)
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(replaying, "record", refuse)
    asked = prompts(12, 7)
    with pytest.warns(UserWarning, match="without CUDA graphs"):
        ours = replaying.generate(asked, range(12), 25, 1.0)
    alike(ours, plain.generate(asked, range(12), 25, 1.0))
    assert not replaying.capturing


def test_a_space_keeps_the_address_of_a_shape_until_it_has_to_grow():
    space = Space()
    first = space.lay("keys", torch.ones(4, 3), (4, 5))
    assert first.sum() == 12
    smaller = space.lay("keys", torch.ones(2, 3), (2, 3))
    assert smaller.data_ptr() == first.data_ptr()
    assert space.renewed == 1
    assert space.held == 80
    space.lay("keys", torch.ones(5, 5), (5, 5))
    assert space.renewed == 2


@pytest.mark.parametrize(
    ("length", "longer"), [(1, 64), (64, 64), (65, 128), (500, 512), (513, 640), (1_030, 1_280)]
)
def test_buffers_have_few_lengths(length, longer):
    assert rounded(length) == longer
