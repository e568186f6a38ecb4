"""The domain protocol: what a family of tasks must offer. Nothing here is about any one domain."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from coevolve.core.rollout import Message, Outcome
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.knobs import Knobs, KnobSpace


class Statistic(NamedTuple):
    """A measured property of generated tasks, with the number of tasks behind it."""

    value: float
    n: int


def mean(values: Sequence[float]) -> Statistic:
    return Statistic(sum(values) / max(len(values), 1), len(values))


def means(values: Mapping[str, Sequence[float]]) -> dict[str, Statistic]:
    """The mean of each, where there is anything to take it of."""
    return {name: mean(found) for name, found in values.items() if found}


def shares_of(tasks: Sequence[Task], *labels: str) -> dict[str, Statistic]:
    """For the share of each value of some labels, how many tasks have it."""
    return {
        f"{name}.share": Statistic(total / len(tasks), len(tasks))
        for label in labels
        for name, total in sorted(Counter(str(task.bucket[label]) for task in tasks).items())
    }


Script = Callable[[Task, random.Random, str], str]
"""Answers a task in a prompt style."""


class Domain(Protocol):
    """A family of tasks. `coevolve check NAME` tells whether an implementation keeps its word."""

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line for `coevolve domains`."""
    space: KnobSpace
    failures: ClassVar[Mapping[str, str]]
    """Failure classes and what each means; the order is the order of the checks."""
    components: ClassVar[Mapping[str, str]]
    """Named reward components and what each means."""
    buckets: ClassVar[tuple[str, ...]]
    """Names of the labels that every task of the domain carries."""
    styles: ClassVar[tuple[str, ...]]
    """Prompt styles, the default first."""
    panels: ClassVar[tuple[str, ...]]
    """Labels that evaluations are shown by."""
    full_reward: ClassVar[float]
    """What a perfect answer earns."""
    scripts: ClassVar[Mapping[str, Script]]
    """Scripted policies by name; "oracle" is always one of them."""
    suites: ClassVar[Mapping[str, Callable[[], Iterator[Task]]]]
    """Frozen sets of tasks to evaluate on."""

    def generate(
        self, knobs: Knobs, count: int, seed: int, split: Split, workers: int = 1
    ) -> Iterator[Task]:
        """Tasks drawn from `knobs`: the same for the same arguments, whatever `workers` is."""
        ...

    def prompt(self, task: Task, style: str = "") -> tuple[Message, ...]:
        """What a policy sees. Never holds the solution."""
        ...

    def verify(self, task: Task, text: str, tokens: int | None = None) -> Outcome:
        """The verdict on an answer of so many tokens, if they were counted.

        Never raises for any text.
        """
        ...

    def oracle(self, task: Task, style: str = "") -> str:
        """An answer in the prompt's style that earns full reward."""
        ...

    def fingerprint(self, task: Task) -> int:
        """A well-mixed number, equal for tasks that are the same up to the domain's symmetries."""
        ...

    def statistics(self, tasks: Sequence[Task]) -> dict[str, Statistic]:
        """For each knob that matters to these tasks, the statistic that it moves."""
        ...

    def solve(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """What is certain about a task in the public format: facts by name."""
        ...

    def draw(self, task: Task, text: str | None = None) -> str:
        """A task, and an answer to it, for a terminal."""
        ...

    def picture(self, task: Task, text: str | None, path: Path) -> None:
        """The same as a picture file."""
        ...

    def load(self, data: Mapping[str, Any]) -> Task:
        """A task from plain JSON values in the domain's public format, completed and checked."""
        ...


def schema_of(domain: Domain, style: str) -> str | None:
    """The JSON schema that answers in a prompt style follow, where a domain has a `schema`."""
    find: Callable[[str], str | None] | None = getattr(domain, "schema", None)
    return find(style) if find else None


def clean_of(domain: Domain) -> Domain:
    """The same domain without the ways to cheat that it knows of, where it has a `clean`: nothing
    to find that gives an answer away, and a judge that cannot be talked to."""
    make: Callable[[], Domain] | None = getattr(domain, "clean", None)
    return make() if make else domain


def tasks_in(domain: Domain, split: Split) -> int | None:
    """How many different tasks a split has, where a domain has a `tasks_in`: rows of a data set are
    only so many. None where there is no end to them."""
    count: Callable[[Split], int] | None = getattr(domain, "tasks_in", None)
    return count(split) if count else None


VerifyAll = Callable[[Sequence[Task], Sequence[str], Sequence[int | None]], list[Outcome]]


def together(domain: Domain) -> VerifyAll | None:
    """A domain's `verify_all`: `verify` for many answers at once, with the same outcomes.

    None where it has none, or where `verify` was overridden and `verify_all` was not.
    """
    for one in type(domain).__mro__:
        if "verify_all" in vars(one):
            found: VerifyAll = domain.verify_all  # type: ignore[attr-defined]
            return found
        if "verify" in vars(one):
            break
    return None
