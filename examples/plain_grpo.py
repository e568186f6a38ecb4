"""GRPO in plain torch, for the engine `command`:

    coevolve train grpo --engine command:examples/plain_grpo.py -r steps=100 -r learning_rate=5e-5

The folder of a stage comes in as the last argument; a policy and its attempts are left there.
Killed and started again, it goes on after the last step that it saved, and ends with the same
weights.
"""

import math
import sys
from pathlib import Path

import torch
from torch.nn.utils import clip_grad_norm_

from coevolve.engines.command import StageFolder
from coevolve.engines.score import Attempt
from coevolve.policies.local import render
from coevolve.policies.models import load

work = StageFolder(sys.argv[-1])
stage, recipe, saved = work.stage, work.stage.recipe, Path(sys.argv[-1]) / "saved.pt"
if stage.kind != "grpo" or recipe.lora or recipe.kl or recipe.entropy or recipe.loss != "dapo":
    sys.exit("plain_grpo.py trains all weights, by GRPO with the loss dapo, without kl or entropy")

torch.set_num_threads(1)
loaded = load(work.model, stage.device or "cpu", training=True)
model, tokenizer = loaded.model.eval(), loaded.tokenizer
device, ends = model.device, torch.tensor(loaded.end_ids, device=model.device)
optimiser = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, weight_decay=0.0)
step = used = 0  # steps made, and tokens read and drawn
if saved.exists():
    state = torch.load(saved, map_location=device)
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    step, used = state["step"], state["used"]


@torch.no_grad()
def draw(ids, mask):
    """Answers to a batch of prompts, which are padded on the left; a column per token."""
    drawn, going = [], torch.ones(len(ids), dtype=torch.bool, device=device)
    past, place, new = None, mask.cumsum(1) - 1, ids
    for _ in range(recipe.max_tokens):
        seen = model(
            new, attention_mask=mask, position_ids=place.clamp(min=0), past_key_values=past
        )
        past, chances = seen.past_key_values, (seen.logits[:, -1] / recipe.temperature).softmax(-1)
        new = torch.multinomial(chances, 1).where(going[:, None], tokenizer.pad_token_id)
        drawn.append(new)
        mask = torch.cat((mask, going[:, None].long()), 1)
        going &= ~torch.isin(new[:, 0], ends)
        place = place[:, -1:] + 1
        if not going.any():
            break
    return torch.cat(drawn, 1), mask[:, ids.shape[1] :]


def log_probabilities(ids, mask, answers, own):
    """Of the tokens of the answers, under the weights as they are now."""
    row, seen = torch.cat((ids, answers), 1), torch.cat((mask, own), 1)
    places = (seen.cumsum(1) - 1).clamp(min=0)
    logits = model(row, attention_mask=seen, position_ids=places).logits
    scores = (logits[:, ids.shape[1] - 1 : -1] / recipe.temperature).log_softmax(-1)
    return scores.gather(2, answers[:, :, None])[:, :, 0] * own


while not recipe.is_over(step, used):
    torch.manual_seed(stage.seed + step)
    asks = [ask for ask in work.batch(step) for _ in range(recipe.group)]
    prompts = {"input_ids": [render(tokenizer, ask.messages) for ask in asks]}
    prompts = tokenizer.pad(prompts, return_tensors="pt").to(device)
    ids, mask = prompts["input_ids"], prompts["attention_mask"]
    answers, own = draw(ids, mask)
    scores = log_probabilities(ids, mask, answers, own)

    attempts = []
    for row, ask in enumerate(asks):
        said, likely = answers[row, : own[row].sum()], scores[row].detach()
        attempts.append(
            Attempt(
                task_id=ask.id,
                step=step,
                group=row // recipe.group,
                text=tokenizer.decode(said, skip_special_tokens=True),
                tokens=len(said),
                prompt_tokens=int(mask[row].sum()),
                stop="end" if said[-1] in ends else "length",
                mean_logprob=likely.sum().item() / len(said),
                min_logprob=likely.min().item(),
            )
        )
    rewards, weights = work.record(step, attempts)

    # What an attempt earned beyond the mean of its group, in units of the group's spread.
    groups = torch.tensor(rewards, device=device).view(-1, recipe.group)
    advantages = (groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-4)
    advantages = advantages.flatten() * torch.tensor(weights, device=device)
    # Adam's averages are empty at first: the rate rises over the first tenth, ten steps at most.
    warm_up, done = max(1, min(10, recipe.steps // 10)), step / recipe.steps
    falls = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}
    share = min(falls[recipe.schedule], (step + 1) / warm_up)
    optimiser.param_groups[0]["lr"] = recipe.learning_rate * share
    before, gained = scores.detach(), advantages[:, None]
    for update in range(recipe.iterations):
        if update:
            scores = log_probabilities(ids, mask, answers, own)
        # In the first update the ratio to the policy that drew is 1, so nothing is clipped.
        ratio = (scores - before).exp()
        clipped = ratio.clamp(1 - recipe.clip_low, 1 + recipe.clip_high)
        loss = -(torch.min(ratio * gained, clipped * gained) * own).sum() / own.sum()
        optimiser.zero_grad()
        loss.backward()
        norm = clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()

    step, used = step + 1, used + int(mask.sum() + own.sum())
    work.tell(step, loss=loss.item(), grad_norm=norm.item(), reward=groups.mean().item())
    state = {"model": model.state_dict(), "optimiser": optimiser.state_dict()}
    torch.save(state | {"step": step, "used": used}, saved.with_suffix(".partial"))
    saved.with_suffix(".partial").replace(saved)

model.save_pretrained(work.policy)
tokenizer.save_pretrained(work.policy)
