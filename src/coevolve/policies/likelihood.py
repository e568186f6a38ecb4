"""How likely a model holds answers that were given before, and which way its weights would have to
go to make some of them likelier.

Answers are read back from rollouts, every turn of a dialogue by itself. Of large models gradients
are kept as sums over few bins, with random signs: inner products stay what they are, but for noise.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from coevolve.core.rollout import Rollout, StopReason
from coevolve.core.seeds import derive
from coevolve.policies.hardware import computing, is_small
from coevolve.policies.local import render
from coevolve.policies.models import Loaded

Numbers = NDArray[np.float64]
AT_ONCE = 1 << 26
"""Scores, tokens times vocabulary, that a pass holds on a CPU; eight times as many on a GPU."""
TOKENS = 1 << 15
"""That it holds at most."""
BINS = 1 << 20
IGNORED = -100


class Row(NamedTuple):
    """One turn of a rollout: what the model had read, and then said."""

    rollout: int
    ids: list[int]
    prompt: int
    """How many of the tokens were read."""


def rows_of(loaded: Loaded, rollouts: Sequence[Rollout]) -> list[Row]:
    """Every turn in which the policy spoke; what does not fit into the model's context is cut."""
    tokenizer, found = loaded.tokenizer, list[Row]()
    for number, one in enumerate(rollouts):
        places = [at for at, turn in enumerate(one.messages) if turn.role == "assistant"]
        for at in places:
            prompt = render(tokenizer, one.messages[:at])
            said = tokenizer.encode(one.messages[at].content, add_special_tokens=False)
            if at < places[-1] or one.stop is StopReason.END:
                said = [*said, tokenizer.eos_token_id]
            ids = [*prompt, *said][: loaded.context]
            if len(ids) > len(prompt):
                found.append(Row(number, ids, len(prompt)))
    return found


def batches(loaded: Loaded, rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Rows of like length together, few enough for a pass."""
    vocabulary = loaded.model.config.get_text_config().vocab_size
    most = AT_ONCE * (8 if loaded.model.device.type == "cuda" else 1) // vocabulary
    most = min(most, TOKENS)
    batch: list[Row] = []
    for row in sorted(rows, key=lambda one: len(one.ids)):
        if batch and (len(batch) + 1) * len(row.ids) > most:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def likelihoods(loaded: Loaded, rows: Sequence[Row], temperature: float = 1.0) -> Tensor:
    """The log-probability of each row's answer, in nats."""
    device, width = loaded.model.device, max(len(row.ids) for row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    labels = torch.full((len(rows), width), IGNORED)
    for place, row in enumerate(rows):
        ids[place, : len(row.ids)] = torch.tensor(row.ids)
        labels[place, row.prompt : len(row.ids)] = ids[place, row.prompt : len(row.ids)]
    # Padding is behind everything, where plain causal attention cannot see it.
    logits = loaded.model(input_ids=ids.to(device)).logits[:, :-1].float() / (temperature or 1.0)
    wanted = labels[:, 1:].to(device)
    losses = torch.nn.functional.cross_entropy(
        logits.transpose(1, 2), wanted, ignore_index=IGNORED, reduction="none"
    )
    return -losses.sum(1)


def log_likelihoods(
    loaded: Loaded, rollouts: Sequence[Rollout], temperature: float = 1.0
) -> Numbers:
    """Of every rollout: the log-probability of all that the policy said in it."""
    found = np.zeros(len(rollouts))
    with torch.no_grad(), computing(loaded.model):
        for batch in batches(loaded, rows_of(loaded, rollouts)):
            values = likelihoods(loaded, batch, temperature).double().cpu().numpy()
            np.add.at(found, [row.rollout for row in batch], values)
    return found


def gradient(loaded: Loaded, rollouts: Sequence[Rollout], weights: Numbers) -> Tensor:
    """Of the sum of weight times log-probability, per token that was drawn."""
    model: Any = loaded.model
    model.zero_grad()
    rows = [row for row in rows_of(loaded, rollouts) if weights[row.rollout]]
    drawn = sum(max(1, one.completion_tokens) for one in rollouts)
    with torch.enable_grad(), computing(model):
        for batch in batches(loaded, rows):
            scale = torch.tensor([weights[row.rollout] / drawn for row in batch])
            total = likelihoods(loaded, batch) @ scale.to(model.device, torch.float32)
            torch.autograd.backward(total)
    found = flat(model)
    model.zero_grad()
    return found


def flat(model: Any) -> Tensor:
    """All gradients of a model as one row of numbers: every one of a small model, sums over bins of
    a large one."""
    parts = [(name, one) for name, one in model.named_parameters() if one.requires_grad]
    if is_small(model):
        whole = [
            (one.grad if one.grad is not None else torch.zeros_like(one)).flatten()
            for _, one in parts
        ]
        return torch.cat(whole).float()
    bins = torch.zeros(BINS, device=model.device)
    for name, one in parts:
        if one.grad is not None:
            rng = torch.Generator(model.device).manual_seed(derive(0, "bins", name) % 2**63)
            place = torch.randint(BINS, one.grad.shape, generator=rng, device=model.device)
            sign = torch.randint(2, one.grad.shape, generator=rng, device=model.device) * 2 - 1
            bins.index_add_(0, place.flatten(), (one.grad * sign).flatten().float())
    return bins
