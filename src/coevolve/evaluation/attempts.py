"""Attempts at tasks, part by part, so that finished parts need not be made again.

Invariant: parts are cut by the list of tasks and the settings alone, so an evaluation that was
interrupted asks for the same batches, and gets the same answers, as one that was not.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from coevolve.core.rollout import Rollout
from coevolve.core.task import Task
from coevolve.domains.base import Domain, schema_of
from coevolve.domains.turns import has_turns
from coevolve.evaluation.dialogue import converse
from coevolve.evaluation.judge import judge
from coevolve.evaluation.wording import asked
from coevolve.policies.base import Policy, Prompt, Sampling, wording_of


class Parts(Protocol):
    """Where finished parts are kept."""

    def load(self, number: int, tasks: Sequence[Task]) -> list[Rollout] | None:
        """The attempts of a part that is finished, None for one that is not."""
        ...

    def keep(self, number: int, rollouts: Sequence[Rollout]) -> None:
        """Write a part down, whole or not at all."""
        ...


def cut(tasks: Sequence[Task], samples: int, batch: int) -> list[Sequence[Task]]:
    """Tasks in parts of about `batch` attempts; attempts at one task stay together."""
    size = max(1, batch // samples)
    return [tasks[first : first + size] for first in range(0, len(tasks), size)]


def attempts(
    domain: Domain,
    policy: Policy,
    tasks: Sequence[Task],
    sampling: Sampling,
    *,
    style: str = "",
    samples: int = 1,
    batch: int = 64,
    parts: Parts | None = None,
) -> Iterator[Rollout]:
    """`samples` attempts at every task, in order; what `parts` has is not asked again."""
    for number, part in enumerate(cut(tasks, samples, batch)):
        found = parts.load(number, part) if parts else None
        if found is None:
            found = ask(domain, policy, part, sampling, style, samples)
            if parts:
                parts.keep(number, found)
        yield from found


def ask(
    domain: Domain,
    policy: Policy,
    tasks: Sequence[Task],
    sampling: Sampling,
    style: str,
    samples: int,
) -> list[Rollout]:
    """All attempts at some tasks, asked for at once."""
    messages = asked(domain, tasks, style, wording_of(policy, domain.name)).prompts
    prompts = [
        Prompt(said, task, sample)
        for task, said in zip(tasks, messages, strict=True)
        for sample in range(samples)
    ]
    if has_turns(domain):
        return converse(domain, policy, prompts, sampling)
    if schema := schema_of(domain, style):
        sampling = sampling.model_copy(update={"json_schema": schema})
    completions = policy.answer(prompts, sampling)
    return judge(domain, prompts, completions, policy.name)
