"""Further groups in place of dead ones, drawn out of the rollouts of the stage.

Invariant: the groups of a step are numbered in the order in which they are drawn, and number n is
tried on the n-th task from where the step began in the stage's order. So what is drawn depends
neither on the number of processes nor on whether the stage was cut off.
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from coevolve.engines.trl.grpo import Trainer

LISTS = 5
"""What TRL returns of a batch row by row: prompts, answers, whose tokens, messages, logprobs."""


def dead_groups(rewards: Tensor, size: int) -> Tensor:
    """By group, whether all its rollouts earned the same."""
    groups = rewards.view(-1, size)
    return (groups == groups[:, :1]).all(1)


def redraw(trainer: "Trainer") -> None:
    """Draw groups in place of those that are dead, and of those of them that are dead again, as
    often as the recipe says and as far as the stage's rollouts go."""
    recipe, device = trainer.recipe, trainer.accelerator.device
    for _ in range(recipe.redraw):
        earned = [trainer.tried.scored[place].shaped for place in trainer.kept]
        everywhere = trainer.accelerator.gather(torch.tensor(earned, device=device))
        dead = dead_groups(everywhere, recipe.group).nonzero().flatten().tolist()
        next_task = trainer.done + len(trainer.chosen)
        tasks = trainer.order[next_task : next_task + len(dead)]
        if not tasks:
            return
        numbers = range(len(trainer.chosen), len(trainer.chosen) + len(tasks))
        fresh = dict(zip(dead, numbers, strict=False))
        trainer.chosen += tasks
        for place, number in fresh.items():
            trainer.groups[place] = number
        exchange(trainer, fresh)


def exchange(trainer: "Trainer", fresh: dict[int, int]) -> None:
    """Draw the rows of this process in groups that are drawn again: their place among the groups
    that are learned from, and their new number."""
    size, every, first, whole = trainer.recipe.group, trainer.rows, trainer.first, trainer.drawn
    rows = [row for row in range(len(every)) if (first + row) // size in fresh]
    used = 0
    if rows:
        numbers = [fresh[(first + row) // size] for row in rows]
        places = [number * size + row % size for number, row in zip(numbers, rows, strict=True)]
        trainer.begin([trainer.row(trainer.chosen[number]) for number in numbers], places)
        trainer.drawn = drawn_alone(trainer)
        done = len(trainer.tried.scored)
        trainer.judge()
        for place, row in enumerate(rows):
            trainer.kept[row] = done + place
            for part in range(LISTS):
                if whole[part] is not None:
                    whole[part][row] = trainer.drawn[part][place]
        told = trainer.tried.scored[done:]
        used = sum(trainer.read) + sum(one.completion_tokens for one in told)
    trainer.rows, trainer.drawn = every, whole
    trainer.count_tokens(used)


def drawn_alone(trainer: "Trainer") -> tuple[Any, ...]:
    """Answers to the rows that were begun, as TRL returns them, without a word to other processes:
    they may have nothing to draw."""
    prompts = [row["prompt"] for row in trainer.rows]
    if trainer.rollout_func is not None:
        found = trainer.play(prompts, None)
        ids, answers, own = found["prompt_ids"], found["completion_ids"], found["env_mask"]
        logprobs = found["logprobs"]
    else:
        ids, own = trainer._tokenize_prompts(prompts)[0], None
        answers, logprobs = trainer._generate_single_turn(ids)
    texts = trainer.processing_class.batch_decode(answers, skip_special_tokens=True)
    messages = [[{"role": "assistant", "content": text}] for text in texts]
    return ids, answers, own, messages, logprobs
