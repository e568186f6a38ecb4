"""The warm start: supervised training on what the oracle does, through TRL's SFT trainer.

Where a scripted player `oracle` wins over several turns, its whole dialogues are shown. Tokens are
exactly those that would be drawn and read, so that GRPO goes on where this ends.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from coevolve.core.errors import UserError
from coevolve.core.rollout import StopReason
from coevolve.core.seeds import derive
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.domains.turns import Said, shown
from coevolve.engines.base import Stage, order
from coevolve.engines.trl.turns import reply_ids
from coevolve.evaluation.language import instructions
from coevolve.evaluation.wording import asked
from coevolve.policies.base import Prompt, Sampling
from coevolve.policies.local import LocalPolicy, render, rendered
from coevolve.policies.models import Loaded

IGNORED = -100
REPLAY_TOKENS = 96
"""Of an own answer at most."""
REPEATED = 4
"""How often an own answer is shown, about: those that return too often are learned by heart."""
FEWEST, MOST = 400, 2_000
"""Own answers that are drawn, unless that is far more than are shown."""


@contextmanager
def unmasked(model: Any) -> Iterator[None]:
    """Without the mask of padding, which stands behind all that counts, so that nothing that counts
    sees it: for attention that is merely causal no square of masks has to be kept."""

    def dropped(_: Any, words: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return words, {**named, "attention_mask": None}

    hook = model.register_forward_pre_hook(dropped, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


def example(tokenizer: Any, prompt: Sequence[int], turns: Sequence[Said]) -> dict[str, list[int]]:
    """Token ids of a prompt and all that was said after it, and labels of what the policy says."""
    ids, labels, end = list(prompt), [IGNORED] * len(prompt), tokenizer.eos_token_id
    for text, reply in turns:
        said = [*tokenizer(text, add_special_tokens=False)["input_ids"], end]
        heard = reply_ids(tokenizer, reply, [end]) if reply is not None else []
        ids += said + heard
        labels += said + [IGNORED] * len(heard)
    return {"input_ids": ids, "labels": labels}


def examples(
    stage: Stage, tasks: Sequence[Task], domains: dict[str, Domain], loaded: Loaded
) -> list[dict[str, list[int]]]:
    """All demonstrations of a stage in the order in which they are shown."""
    count = stage.recipe.steps * stage.recipe.tasks
    own = round(stage.recipe.replay * count)
    places = order(len(tasks), count - own, stage.seed)
    needed = {tasks[index].id: tasks[index] for index in places}
    made: dict[str, dict[str, list[int]]] = {}
    for name, domain in domains.items():
        named = [task for task in needed.values() if task.domain == name]
        style = loaded.style(name, stage.style)
        prompts = asked(domain, named, style, loaded.wording(name)).prompts
        read = rendered(loaded.tokenizer, prompts)
        for task, messages, ids in zip(named, prompts, read, strict=True):
            turns = shown(domain, task, style, messages, stage.seed)
            made[task.id] = example(loaded.tokenizer, ids, turns)
    rows = [made[tasks[index].id] for index in places]
    if own:
        earlier = replayed(loaded, stage, own)
        rows += [earlier[index] for index in order(len(earlier), own, derive(stage.seed, "replay"))]
        rows = [rows[index] for index in order(len(rows), count, derive(stage.seed, "mix"))]
    return rows


def replayed(loaded: Loaded, stage: Stage, shown: int) -> list[dict[str, list[int]]]:
    """The policy's own right answers to general instructions, before it is trained."""
    policy = LocalPolicy(stage.model, loaded=loaded)
    tokenizer, wanted = loaded.tokenizer, min(max(shown // REPEATED, FEWEST), MOST)
    count, seed = min(wanted, max(2 * shown, 40)), derive(stage.seed, "replay")
    print(f"drawing {count} own answers to replay", file=sys.stderr)
    asked = instructions(count, seed, held_out=False)
    sampling = Sampling(temperature=0.7, max_tokens=REPLAY_TOKENS, seed=stage.seed)
    answers = policy.answer([Prompt(task.messages) for task in asked], sampling)
    found = [
        example(tokenizer, render(tokenizer, task.messages), [Said(answer.text, None)])
        for task, answer in zip(asked, answers, strict=True)
        # What was cut off would teach it to stop anywhere, what is wrong to do as it likes.
        if answer.stop is StopReason.END and task.check(answer.text)
    ]
    if not found:
        raise UserError(
            f"replay = {stage.recipe.replay}: none of the model's own answers to {count} general "
            f"instructions is right and ends within {REPLAY_TOKENS} tokens; set replay = 0"
        )
    return found
