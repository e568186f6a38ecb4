"""What policies are asked about tasks: the domain's words, in the wording of the policy.

Invariant: where a wording that is a function fails, the task is asked in the domain's own words,
and the failure is told.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from coevolve.core.rollout import Message
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.evaluation.shape import LIMITS
from coevolve.harness.code import is_code
from coevolve.harness.wording import TASK, Wording
from coevolve.sandbox.judge import program

BATCH = 256
"""Tasks that a sandbox is given at a time."""
MOST_CHARACTERS = 100_000
"""Of what a function makes of a task."""
RUNNER = """

def texts_of(tasks):
    found = []
    for one in tasks:
        try:
            text = prompt(one)
            good = isinstance(text, str)
            found.append((good, text if good else "it gave no text"))
        except Exception as error:
            found.append((False, f"{type(error).__name__}: {error}"[:200]))
    return found
"""

Messages = tuple[Message, ...]


class Asked(NamedTuple):
    """Prompts, task by task."""

    prompts: list[Messages]
    failures: tuple[str, ...] = ()
    """One for every task that a function failed on."""


def asked(domain: Domain, tasks: Sequence[Task], style: str, wording: Wording) -> Asked:
    """What a policy sees of each task."""
    plain = [domain.prompt(task, style) for task in tasks]
    if wording == Wording():
        return Asked(plain)
    texts, failures = worded(plain, tasks, wording.prompt)
    pairs = zip(plain, texts, strict=True)
    return Asked([put(messages, text, wording.system) for messages, text in pairs], failures)


def messages_of(
    tasks: Sequence[Task],
    domains: Mapping[str, Domain],
    style: Callable[[str], str],
    wording: Callable[[str], Wording],
) -> list[Messages]:
    """The same for tasks of several domains, each with its style and wording."""
    found: dict[str, Messages] = {}
    for name, domain in domains.items():
        own = [task for task in tasks if task.domain == name]
        said = asked(domain, own, style(name), wording(name)).prompts
        found |= {task.id: messages for task, messages in zip(own, said, strict=True)}
    return [found[task.id] for task in tasks]


def unsound(domain: Domain, tasks: Sequence[Task], style: str, wording: Wording) -> tuple[str, ...]:
    """Why a wording that is a function is none to go by: it fails, or is not the same twice."""
    first = asked(domain, tasks, style, wording)
    again = asked(domain, tasks[::-1], style, wording)
    if first.failures or first.prompts == again.prompts[::-1]:
        return first.failures
    return ("asked again, in another order, it gives other words",)


def worded(
    plain: Sequence[Messages], tasks: Sequence[Task], prompt: str
) -> tuple[list[str], tuple[str, ...]]:
    """The last message to the policy, anew."""
    before = [messages[-1].content for messages in plain]
    if not is_code(prompt):
        return [prompt.replace(TASK, text) if prompt else text for text in before], ()
    found, failures = list[str](), list[str]()
    for first in range(0, len(tasks), BATCH):
        part = slice(first, first + BATCH)
        told = [
            {"text": text, "labels": dict(task.bucket)}
            for text, task in zip(before[part], tasks[part], strict=True)
        ]
        with program(prompt + RUNNER, LIMITS) as running:
            said = running.call("texts_of", [told])
        pairs = said.value if isinstance(said.value, list) else []
        if len(pairs) != len(told):
            pairs = [(False, said.error or f"it was stopped ({said.stop})")] * len(told)
        for own, (good, text) in zip(before[part], pairs, strict=True):
            good = good is True and isinstance(text, str) and 0 < len(text) <= MOST_CHARACTERS
            found.append(text if good else own)
            if not good:
                failures.append(str(text)[:200] or "it gave an empty text")
    return found, tuple(failures)


def put(messages: Messages, text: str, system: str) -> Messages:
    """Messages with another last one, and another system message."""
    *others, last = messages
    if system:
        others = [one for one in others if one.role != "system"]
        others.insert(0, Message(role="system", content=system))
    return (*others, last.model_copy(update={"content": text}))
