"""The one place where an answer becomes a rollout, in training as in evaluation."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from coevolve.core.rollout import Message, Outcome, Rollout
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.domains.capture import verify, verify_all
from coevolve.policies.base import Completion, Prompt

Item = TypeVar("Item")
Result = TypeVar("Result")


def each(
    domains: Iterable[Domain], work: Callable[[Item], Result], items: Iterable[Item]
) -> list[Result]:
    """What is made of all items, in order. A domain whose `waits` is true spends its time waiting
    for processes that it starts, so its answers are judged as many at once as there are cores."""
    if not any(getattr(domain, "waits", False) for domain in domains):
        return [work(item) for item in items]
    with ThreadPoolExecutor(os.cpu_count() or 1, "judging") as pool:
        return list(pool.map(work, items))


def verdicts(
    domain: Domain, prompts: Sequence[Prompt], completions: Sequence[Completion]
) -> list[Outcome]:
    """The outcomes of single answers, in order."""
    tasks = [_task(prompt) for prompt in prompts]
    texts = [completion.text for completion in completions]
    tokens = [completion.completion_tokens or None for completion in completions]
    found = verify_all(domain, tasks, texts, tokens)
    if found is not None:
        return found
    answers = zip(tasks, texts, tokens, strict=True)
    return each([domain], lambda answer: verify(domain, *answer), answers)


def judge(
    domain: Domain, prompts: Sequence[Prompt], completions: Sequence[Completion], policy: str
) -> list[Rollout]:
    """The rollouts of single answers, in order."""
    found = verdicts(domain, prompts, completions)
    return [
        record(prompt, completion, said(completion), outcome, policy)
        for prompt, completion, outcome in zip(prompts, completions, found, strict=True)
    ]


def said(completion: Completion) -> tuple[Message, ...]:
    """All that comes after the prompt of a single answer."""
    return (Message.trusted(role="assistant", content=completion.text),)


def record(
    prompt: Prompt,
    completion: Completion,
    turns: tuple[Message, ...],
    outcome: Outcome,
    policy: str,
    step: int = -1,
    shaped: float | None = None,
    group: str = "",
) -> Rollout:
    """The rollout of an attempt whose outcome is known; `turns` is what came after the prompt."""
    task = _task(prompt)
    logprobs, entropies = completion.logprobs, completion.entropies
    return Rollout.trusted(
        task_id=task.id,
        domain=task.domain,
        split=task.split,
        bucket=task.bucket,
        messages=(*prompt.messages, *turns),
        outcome=outcome,
        shaped=shaped,
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
        group=group,
    )


def _task(prompt: Prompt) -> Task:
    if prompt.task is None:
        raise ValueError("a prompt without a task cannot be judged")
    return prompt.task
