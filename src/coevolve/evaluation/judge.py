"""The one place where an answer becomes a rollout, in training as in evaluation."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from coevolve.core.rollout import Message, Outcome, Rollout
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.policies.base import Completion, Prompt

Item = TypeVar("Item")


def each(
    domains: Iterable[Domain], work: Callable[[Item], Rollout], items: Iterable[Item]
) -> list[Rollout]:
    """Rollouts of all items, in order. A domain whose `waits` is true spends its time waiting for
    processes that it starts, so its answers are judged as many at once as there are cores."""
    if not any(getattr(domain, "waits", False) for domain in domains):
        return [work(item) for item in items]
    with ThreadPoolExecutor(os.cpu_count() or 1, "judging") as pool:
        return list(pool.map(work, items))


def judge(
    domain: Domain, prompt: Prompt, completion: Completion, policy: str, step: int = -1
) -> Rollout:
    """The rollout of a single answer."""
    task = _task(prompt)
    tokens = completion.completion_tokens or None
    turns = (Message(role="assistant", content=completion.text),)
    outcome = domain.verify(task, completion.text, tokens)
    return record(prompt, completion, turns, outcome, policy, step)


def record(
    prompt: Prompt,
    completion: Completion,
    turns: tuple[Message, ...],
    outcome: Outcome,
    policy: str,
    step: int = -1,
) -> Rollout:
    """The rollout of an attempt whose outcome is known; `turns` is what came after the prompt."""
    task = _task(prompt)
    logprobs, entropies = completion.logprobs, completion.entropies
    return Rollout.model_construct(  # nothing in it comes from outside, so nothing is checked again
        task_id=task.id,
        domain=task.domain,
        split=task.split,
        bucket=task.bucket,
        messages=(*prompt.messages, *turns),
        outcome=outcome,
        stop=completion.stop,
        sample=prompt.sample,
        policy=policy,
        prompt_tokens=completion.prompt_tokens,
        completion_tokens=completion.completion_tokens,
        mean_logprob=sum(logprobs) / len(logprobs) if logprobs else None,
        min_logprob=min(logprobs) if logprobs else None,
        entropy=sum(entropies) / len(entropies) if entropies else None,
        seconds=completion.seconds,
        step=step,
    )


def _task(prompt: Prompt) -> Task:
    if prompt.task is None:
        raise ValueError("a prompt without a task cannot be judged")
    return prompt.task
